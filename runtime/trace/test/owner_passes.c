/* libcudart.so.0: by its name, a library that passes requests on. */
__attribute__((visibility("default"))) void zt_pass(void (*last)(void));
void zt_pass(void (*last)(void))
{
    last();
    __asm__ volatile("");
}
