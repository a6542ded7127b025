/* A library that asks for something, through whatever it is given. */
__attribute__((visibility("default"))) void zt_ask(void (*through)(void (*last)(void)),
                                                   void (*last)(void));
void zt_ask(void (*through)(void (*last)(void)), void (*last)(void))
{
    through(last);
    __asm__ volatile(""); /* no tail call: this frame is what the test looks for */
}
