/* app/chat/text_source.h - a text of any length from a file, a pipe or standard input, read as it comes.
 *
 * A file that is not text is refused by its first bytes, as documents are.  The text is passed on as UTF-8 with \n line ends in whole characters;
 * bytes that cannot be decoded become U+FFFD.  Only a few KiB are held. */
#ifndef WEIR_TEXT_SOURCE_H
#define WEIR_TEXT_SOURCE_H

#include "app/conversation/conversation.h"

struct text_source;
/* "-": the present standard input, which is duplicated: the caller may replace it afterwards. */
int  text_source_open(struct text_source **out, const char *path_or_dash, struct err *);
void text_source_close(struct text_source *);

enum source_got { SOURCE_LATER, SOURCE_TEXT, SOURCE_END };
/* Append the next 2 KiB or so, and wait for them so many milliseconds at most: enum source_got, or -1.  After SOURCE_END a file that
 * has grown gives more. */
int  text_source_next(struct text_source *, int wait_ms, struct str *out, struct err *);

/* The name, clean, for the user. */
const char *text_source_name(const struct text_source *);
/* Percent of a regular file that have been read; -1 = nobody knows. */
int  text_source_percent(const struct text_source *);

#endif
