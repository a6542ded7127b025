#define _DEFAULT_SOURCE /* mkdtemp */
#include "checkpoint_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/folder.h"

char kit_root[] = "/tmp/zr_checkpoint_test.XXXXXX";

const char *kit_path(const char *name)
{
    static char path[4][ZR_PATH];
    static unsigned turn;
    char *p = path[turn++ % 4];
    assert_int_equal(zr_folder_path(kit_root, name, p, NULL), ZL_OK);
    return p;
}

bool kit_there(const char *name)
{
    return access(kit_path(name), F_OK) == 0;
}

static void remove_step(uint64_t step)
{
    char name[ZR_STEP_NAME];
    zr_step_name(step, name);
    assert_int_equal(zr_folder_remove(kit_path(name), NULL), ZL_OK);
}

/* Leaves the folder empty for the next test. */
void kit_clean(void)
{
    for (uint64_t step = 0; step < 10; step++) {
        remove_step(step);
    }
    (void)unlink(kit_path("latest"));
    assert_int_equal(zr_folder_clean(kit_root, NULL), ZL_OK);
}

void kit_save(zl_run run, uint64_t steps, const kit_start *start)
{
    kit_start at = *start;
    at.root = kit_root;
    run.save = true;
    kit_rig rig = kit_open_at(&run, NULL, &at);
    (void)kit_steps(&rig, steps);
    kit_close(&rig);
}

int kit_make_root(void **state)
{
    (void)state;
    return mkdtemp(kit_root) == NULL;
}

int kit_remove_root(void **state)
{
    (void)state;
    return rmdir(kit_root);
}
