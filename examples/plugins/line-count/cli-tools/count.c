/* Counts the lines, words and bytes of a file: {"file": …} in, {"lines": …, "words": …, "bytes": …} out.

   The platform has checked the input against the manifest before this program sees it, and writes it on one line with
   plain keys, so that finding one string in it needs no library. */

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8192 };

static char *put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3F));
    } else {
        *out++ = (char)(0xE0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    return out;
}

/* The string after `"file":`, without its quotes and escapes; 0 where there is none. */
static int file_of(const char *text, char *out)
{
    const char *at = strstr(text, "\"file\":");
    if (at == NULL || (at = strchr(at + 7, '"')) == NULL)
        return 0;
    for (at++; *at != '"' && *at != '\0'; at++) {
        if (*at != '\\') {
            *out++ = *at;
            continue;
        }
        unsigned code;
        switch (*++at) {
        case 'n': *out++ = '\n'; break;
        case 't': *out++ = '\t'; break;
        case 'r': *out++ = '\r'; break;
        case 'b': *out++ = '\b'; break;
        case 'f': *out++ = '\f'; break;
        case 'u':
            if (sscanf(at + 1, "%4x", &code) != 1 || code == 0 || (code >= 0xD800 && code < 0xE000))
                return 0;
            out = put_utf8(out, code);
            at += 4;
            break;
        case '\0': return 0;
        default: *out++ = *at;
        }
    }
    *out = '\0';
    return *at == '"';
}

static int fail(const char *code, const char *message)
{
    printf("{\"error\": {\"code\": \"%s\", \"message\": \"%s\"}}\n", code, message);
    return 0;
}

int main(void)
{
    static char input[MOST], path[MOST], block[1 << 16];
    size_t size = fread(input, 1, sizeof input - 1, stdin);
    input[size] = '\0';
    if (!file_of(input, path))
        return fail("failed", "file has to be a text that can name a file");

    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail(errno == ENOENT ? "not_found" : "failed", strerror(errno));

    unsigned long lines = 0, words = 0, bytes = 0;
    int in_word = 0;
    while ((size = fread(block, 1, sizeof block, file)) > 0) {
        bytes += size;
        for (size_t n = 0; n < size; n++) {
            int is_space = isspace((unsigned char)block[n]) != 0;
            lines += block[n] == '\n';
            words += !is_space && !in_word;
            in_word = !is_space;
        }
    }
    if (ferror(file))
        return fail("failed", strerror(errno));
    printf("{\"lines\": %lu, \"words\": %lu, \"bytes\": %lu}\n", lines, words, bytes);
    return 0;
}
