/* sessions/import/mime.h - parts of a mail message (RFC 5322, 2045 to 2047, 2231); for mail.c, and for docx_parts.c,
 * which reads web archives. */
#ifndef WEIR_IMPORT_MIME_H
#define WEIR_IMPORT_MIME_H

#include "sessions/import/import_private.h"

/* A message, or a part of one: its header lines and its body. */
struct mime {
	const char *head, *body;
	size_t n_head, n_body;
};
/* Split p[n] at its first blank line. */
struct mime mime_split(const char *p, size_t n);
/* Append the value of a header field, on one line and undecoded. Returns 0 if there is none. */
int mime_field(const struct mime *, const char *name, struct str *out);
/* Append the decoded value of a header field ("=?utf-8?Q?...?="), as UTF-8. Returns 0 if there is none. */
int mime_header(const struct mime *, const char *name, struct str *out);
/* Append a parameter of a field's value ("charset", "filename"), as UTF-8. Returns 0 if it is missing. */
int mime_param(const char *value, const char *name, struct str *out);
/* 1 if the media type of a Content-Type value begins with `type`, in upper or lower case. */
int mime_is(const char *value, const char *type);
/* Append the body, decoded from its transfer encoding, such as base64. */
void mime_decode(const struct mime *, struct str *out);
/* Append bytes as UTF-8 without NULs. `label` is the charset that the message names, or "". */
void mime_text(const char *p, size_t n, const char *label, struct str *out);
/* Find the next part of a multipart body; start with *at = 0. Returns 0 at the end. */
int mime_next(const struct mime *, const char *boundary, size_t *at, struct mime *part);

#endif
