/* A run as members of a JSON object. Private to base/. */
#ifndef ZL_BASE_RUN_JSON_H
#define ZL_BASE_RUN_JSON_H

#include "zeroledger/json.h"
#include "zeroledger/run.h"

/* Puts every member of the run, without a schema, into the object that is open. The model's name is
 * a label and may be left out. */
void zl_run_put(zl_json_writer *w, const zl_run *run, bool labelled);

/* Reads the object that zl_run_put wrote (schema: with a schema member) and checks the run. */
ZL_NODISCARD zl_status zl_run_get(zl_json object, bool schema, zl_run *out, zl_err *err);

#endif
