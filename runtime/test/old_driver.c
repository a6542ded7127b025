/* Stands in for a libcuda.so.1 that is older than the program: all that the CUDA runtime asks of
 * such a driver. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);

int cuInit(unsigned flags)
{
    return flags == 0 ? 0 : 1;
}

int cuDriverGetVersion(int *version)
{
    *version = 11040; /* CUDA 11.4 */
    return 0;
}
