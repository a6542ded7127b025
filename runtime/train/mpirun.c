#define _XOPEN_SOURCE 700 /* setenv, readlink, mkdtemp, nftw */
#include "train/mpirun.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* As environment variables these need no knowledge of whose mpirun it is: others ignore them.
 * The job stays on this machine, so no remote shell is looked for; ranks talk through shared
 * memory, copied twice, because containers forbid reading another process. Root and more ranks than
 * cores are fine here, and ranks that wait let the others run. Open MPI 5 reads its launcher's
 * settings under another prefix. */
static const struct setting {
    const char *name;
    const char *value;
} settings[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_plm", "isolated"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"OMPI_MCA_btl", "self,vader"},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
    {"PRTE_ALLOW_RUN_AS_ROOT", "1"},
    {"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
    {"PRTE_MCA_hwloc_default_binding_policy", "none"},
    {"LSAN_OPTIONS", "detect_leaks=0"}, /* builds with sanitizers: MPI itself never frees all */
};

/* Without a word from the user the ranks share the cores, instead of each taking all of them. */
static void share_cores(uint64_t ranks)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint64_t each = cores > 0 && (uint64_t)cores > ranks ? (uint64_t)cores / ranks : 1;
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, each);
    setenv("OPENBLAS_NUM_THREADS", text, 0);
}

/* MPI's files in one place, so that they can be found again. No such place is no error. */
static void gather_files(zr_mpirun *mpirun)
{
    (void)snprintf(mpirun->folder, sizeof(mpirun->folder), "/dev/shm/zl-train.XXXXXX");
    if (mkdtemp(mpirun->folder) == NULL) {
        mpirun->folder[0] = '\0';
        return;
    }
    setenv("OMPI_MCA_orte_tmpdir_base", mpirun->folder, 0);
    setenv("OMPI_MCA_btl_vader_backing_directory", mpirun->folder, 0);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}

void zr_mpirun_release(zr_mpirun *mpirun)
{
    if (mpirun->folder[0] != '\0') {
        (void)nftw(mpirun->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        mpirun->folder[0] = '\0';
    }
}

zl_status zr_mpirun_init(zr_mpirun *mpirun, uint64_t ranks, char *const *argv, zl_err *err)
{
    static char program[] = "mpirun";
    static char number[] = "-np";
    *mpirun = (zr_mpirun){.argv = {program, number, mpirun->ranks, mpirun->self}};
    (void)snprintf(mpirun->ranks, sizeof(mpirun->ranks), "%" PRIu64, ranks);
    if (readlink("/proc/self/exe", mpirun->self, sizeof(mpirun->self) - 1) <= 0) {
        return zl_fail(err, ZL_E_RESOURCE, "/proc/self/exe cannot be read; is /proc mounted?");
    }
    size_t count = 4;
    for (size_t i = 1; argv[i] != NULL; i++) {
        if (count == ZR_MPIRUN_WORDS) {
            return zl_fail(err, ZL_E_USAGE, "more than %d arguments; use --run FILE",
                           ZR_MPIRUN_WORDS - 4);
        }
        mpirun->argv[count++] = argv[i];
    }
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        setenv(settings[i].name, settings[i].value, 0);
    }
    share_cores(ranks);
    gather_files(mpirun);
    return ZL_OK;
}
