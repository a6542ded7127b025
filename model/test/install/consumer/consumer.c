/* A stranger's program: it sees the installed package only. */
#include <stdio.h>

#include "zeroledger/version.h"
#include "zeroledger/vocab.h"

int main(void)
{
    printf("%s %s\n", ZL_VERSION, zl_kind_name((zl_kind)0));
    return 0;
}
