/* What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput, which feeds any
 * bytes to one parser; libFuzzer brings main. docs/fuzzing.md tells how they are run and what they
 * found.
 */
#ifndef ZL_FUZZ_H
#define ZL_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Always 0, says libFuzzer. NOLINTNEXTLINE(readability-identifier-naming): the name is its own */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a text with a NUL behind them, on the heap; the caller frees it. */
char *zl_fuzz_text(const uint8_t *data, size_t size);

/* The path of a file with these bytes, for parsers that open it themselves. There is one such file
 * in memory for each slot, and the next call overwrites it. */
enum { ZL_FUZZ_SLOTS = 2 };
const char *zl_fuzz_file(unsigned slot, const uint8_t *data, size_t size);
/* The same under a name of its own, in a folder that both slots share and that is gone afterwards,
 * for parsers that look at names or for files beside theirs. A slot keeps its first name. */
const char *zl_fuzz_named(unsigned slot, const char *name, const uint8_t *data, size_t size);

/* Of lines "name value" the next one, cut in two; false at the end, and lines that would open files
 * of this machine are passed over: of the options of a run those that name a file, and models but
 * the presets. *rest begins as the text and moves on; a value is "" where there is none. */
bool zl_fuzz_option(char **rest, const char **name, const char **value);

#endif
