/* Reads a pickle as the viewer of PyTorch's memory snapshots does, with the opcodes that it knows
 * and no others, and prints it as JSON: python3 -c 'import json, pickle; ...' without Python.
 * usage: unpickle FILE.pickle >FILE.json
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum sort { FLAG, INT, TEXT, LIST, DICT } sort;

/* A value; keys and values of a dictionary by turns. */
typedef struct node {
    sort sort;
    int64_t number; /* FLAG, INT; TEXT: its length */
    const unsigned char *text;
    size_t *item; /* LIST, DICT: indices of nodes */
    size_t items, room;
} node;

typedef struct numbers {
    size_t *at;
    size_t count, room;
} numbers;

static unsigned char *bytes;
static size_t size, at;
static node *nodes;
static size_t node_count, node_room;
static numbers stack, marks, memo;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "unpickle: %s at byte %zu\n", what, at);
    exit(1);
}

static void *grown(void *array, size_t count, size_t *room, size_t item)
{
    if (count < *room) {
        return array;
    }
    *room = *room == 0 ? 64 : 2 * *room;
    void *const larger = realloc(array, *room * item);
    if (larger == NULL) {
        die("out of memory");
    }
    return larger;
}

static void push(numbers *n, size_t value)
{
    n->at = grown(n->at, n->count, &n->room, sizeof *n->at);
    n->at[n->count++] = value;
}

static size_t pop(numbers *n, const char *what)
{
    if (n->count == 0) {
        die(what);
    }
    return n->at[--n->count];
}

static size_t add(node value)
{
    nodes = grown(nodes, node_count, &node_room, sizeof *nodes);
    nodes[node_count] = value;
    return node_count++;
}

static uint64_t take(unsigned count)
{
    uint64_t value = 0;
    if (size - at < count) {
        die("cut off");
    }
    for (unsigned i = 0; i < count; i++) {
        value |= (uint64_t)bytes[at++] << (8 * i);
    }
    return value;
}

static node integer(int64_t value)
{
    return (node){.sort = INT, .number = value};
}

/* Two's complement, little-endian, of at most 8 bytes. */
static node long1(void)
{
    const unsigned count = (unsigned)take(1);
    if (count == 0 || count > 8) {
        die("a number of no or of more than 8 bytes");
    }
    uint64_t value = take(count);
    if (count < 8 && value >> (8 * count - 1) != 0) {
        value |= UINT64_MAX << (8 * count);
    }
    return integer((int64_t)value);
}

static node binunicode(void)
{
    const uint64_t length = take(4);
    if (size - at < length) {
        die("cut off");
    }
    at += (size_t)length;
    return (node){.sort = TEXT, .number = (int64_t)length, .text = bytes + at - length};
}

/* Everything since the last mark goes into the container below it. */
static void collect(sort container)
{
    const size_t mark = pop(&marks, "no mark");
    if (mark == 0 || mark > stack.count || nodes[stack.at[mark - 1]].sort != container) {
        die("nothing to add to");
    }
    node *const into = &nodes[stack.at[mark - 1]];
    if (container == DICT && (stack.count - mark) % 2 != 0) {
        die("a key without a value");
    }
    for (size_t i = mark; i < stack.count; i++) {
        into->item = grown(into->item, into->items, &into->room, sizeof *into->item);
        into->item[into->items++] = stack.at[i];
    }
    stack.count = mark;
}

static void put(size_t number)
{
    if (stack.count == 0 || number != memo.count) {
        die("a memo out of order");
    }
    push(&memo, stack.at[stack.count - 1]);
}

static void get(size_t number)
{
    if (number >= memo.count) {
        die("nothing was kept under this number");
    }
    push(&stack, memo.at[number]);
}

/* False at the end. */
static bool step(void)
{
    switch (take(1)) {
    case 0x80:
        if (take(1) != 2) {
            die("not protocol 2");
        }
        return true;
    case '(':
        push(&marks, stack.count);
        return true;
    case 'e':
        collect(LIST);
        return true;
    case 'u':
        collect(DICT);
        return true;
    case 'q':
        put((size_t)take(1));
        return true;
    case 'r':
        put((size_t)take(4));
        return true;
    case 'h':
        get((size_t)take(1));
        return true;
    case 'j':
        get((size_t)take(4));
        return true;
    case ']':
        push(&stack, add((node){.sort = LIST}));
        return true;
    case '}':
        push(&stack, add((node){.sort = DICT}));
        return true;
    case 0x88:
        push(&stack, add((node){.sort = FLAG, .number = 1}));
        return true;
    case 0x89:
        push(&stack, add((node){.sort = FLAG}));
        return true;
    case 'K':
        push(&stack, add(integer((int64_t)take(1))));
        return true;
    case 'M':
        push(&stack, add(integer((int64_t)take(2))));
        return true;
    case 'J':
        push(&stack, add(integer((int32_t)take(4))));
        return true;
    case 0x8a:
        push(&stack, add(long1()));
        return true;
    case 'X':
        push(&stack, add(binunicode()));
        return true;
    case '.':
        return false;
    default:
        die("an opcode that the viewer does not know");
    }
}

static void print_text(const node *n)
{
    putchar('"');
    for (int64_t i = 0; i < n->number; i++) {
        const unsigned char c = n->text[i];
        if (c == '"' || c == '\\') {
            putchar('\\');
        }
        if (c < ' ') {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void print(size_t index)
{
    const node *const n = &nodes[index];
    switch (n->sort) {
    case FLAG:
        fputs(n->number != 0 ? "true" : "false", stdout);
        break;
    case INT:
        printf("%" PRId64, n->number);
        break;
    case TEXT:
        print_text(n);
        break;
    case LIST:
    case DICT:
        putchar(n->sort == LIST ? '[' : '{');
        for (size_t i = 0; i < n->items; i++) {
            if (i > 0) {
                putchar(n->sort == DICT && i % 2 != 0 ? ':' : ',');
            }
            print(n->item[i]);
        }
        putchar(n->sort == LIST ? ']' : '}');
        break;
    }
}

static void read_file(const char *path)
{
    FILE *const file = fopen(path, "rb");
    size_t room = 0;
    size_t got = 1;
    if (file == NULL) {
        die("no such file");
    }
    while (got > 0) {
        bytes = grown(bytes, size, &room, 1);
        got = fread(bytes + size, 1, room - size, file);
        size += got;
    }
    (void)fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: unpickle FILE.pickle >FILE.json\n", stderr);
        return 2;
    }
    read_file(argv[1]);
    while (step()) {
    }
    if (stack.count != 1 || marks.count != 0 || at != size) {
        die("not one value");
    }
    print(stack.at[0]);
    putchar('\n');
    for (size_t i = 0; i < node_count; i++) {
        free(nodes[i].item);
    }
    free(nodes);
    free(bytes);
    free(stack.at);
    free(marks.at);
    free(memo.at);
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 4;
}
