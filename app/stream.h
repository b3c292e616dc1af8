/* app/stream.h (private to app/) - a text without an end: a file, a pipe or standard input, read as it comes.
 *
 * What is not text is refused by its first bytes, as documents are.  What comes out is UTF-8 with \n line ends in whole characters;
 * bytes that cannot be decoded become U+FFFD.  Only a few KiB are held. */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

#include "engine/base.h"

struct stream;
/* "-": what is standard input now; it may be replaced afterwards. */
int  stream_open(struct stream **out, const char *path_or_dash, struct err *);
void stream_close(struct stream *);

enum stream_got { STREAM_LATER, STREAM_TEXT, STREAM_END };
/* Append what comes next, 2 KiB or so, and wait for it so many milliseconds at most: enum stream_got, or -1.  A file that has grown
 * goes on after its end. */
int  stream_next(struct stream *, int wait_ms, struct str *out, struct err *);

/* Clean, for the user. */
const char *stream_name(const struct stream *);
/* Percent of a regular file that have been read; -1 = nobody knows. */
int  stream_percent(const struct stream *);

#endif
