/* The mark of a public function: everything without it stays inside the shared library, whose
 * version script moreover lets out only names that begin with zl_. */
#ifndef ZEROLEDGER_EXPORT_H
#define ZEROLEDGER_EXPORT_H

#define ZL_API __attribute__((visibility("default")))

#endif
