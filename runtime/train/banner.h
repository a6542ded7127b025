/* Reads what mpirun and the ranks say on stderr, line by line: lets through what is for people, and
 * takes from the rest which rank died and how.
 *
 *     zr_banner banner = {0};
 *     if (zr_banner_line(&banner, line)) { ... print it ... }
 *     if (banner.dead) { ... banner.rank, banner.signal ... }
 */
#ifndef ZR_BANNER_H
#define ZR_BANNER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zr_banner {
    bool inside;         /* between two rules of dashes */
    bool told;           /* a rank has told why it failed */
    bool dead;           /* mpirun has told of a rank that died without a word */
    uint64_t rank;       /* dead: which one */
    int signal;          /* dead: by this signal; 0 = it exited */
    int code;            /* dead: exit code */
    char swallowed[400]; /* beginning of mpirun's own words, on one line */
} zr_banner;

/* Whether the line (without its newline) is for people. */
bool zr_banner_line(zr_banner *banner, const char *line);

#endif
