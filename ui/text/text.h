/* ui/text/text.h - cleans untrusted text; widths of characters; word wrap for line mode.
 *
 * Model output, documents, file names, GGUF metadata, session titles and error texts of libraries are untrusted:
 * their bytes could move the cursor, change the clipboard, reorder a line or hide text. They may reach a terminal,
 * stdout, a title or a log only through clean_text() or clean_line(), whose replacements are listed in clean.c. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include "engine/base/base.h"

/* maximum length of an output line in bytes; a longer line is broken (with CLEAN_LINE: truncated) */
#define CLEAN_LINE_MAX 65536
#define CLEAN_TAB      8

/* Counts of characters that clean_text() removed or replaced; they only grow. */
struct clean_found {
	/* invisible characters: zero width, tags, fillers, misplaced variation selectors */
	uint64_t hidden;
	uint64_t bidi;     /* direction controls */
	uint64_t controls; /* control characters, including escape */
	/* bytes that are not UTF-8; noncharacters, private-use and unassigned characters */
	uint64_t invalid;
	uint64_t marks;  /* combining marks beyond CLEAN_MARKS_MAX */
	uint64_t breaks; /* lines that were too long, and were broken or truncated */
};

/* State of cleaning one text that arrives in parts.  clean_init() sets it up; it owns no memory. */
struct clean {
	unsigned flags;
	struct clean_found found;
	/* the members below are for clean.c only */
	int32_t cp; /* code point being decoded */
	/* State of decoding UTF-8. `need` is the number of missing bytes of the character; `lo` and `hi` are the bounds
	 * of the next byte. */
	unsigned char need, lo, hi;
	unsigned char after; /* kind of the last written character */
	unsigned char marks; /* number of combining marks on the last written character */
	unsigned char swallow_lf, cut;
	int32_t joiner; /* a joiner that is held back until the next character is known; 0: none */
	unsigned col;   /* column of the output, modulo CLEAN_TAB */
	size_t line;    /* number of bytes of the current line */
};

void clean_init(struct clean *, unsigned flags);
/* Append the clean form of in[n] to *out: valid UTF-8 of printable characters and '\n'. The text may be passed in parts
 * that begin and end anywhere; the output is the same. */
void clean_text(struct clean *, const char *in, size_t n, struct str *out);
/* End the text: an unfinished character becomes U+FFFD. Resets the state for another text but keeps the counts. */
void clean_end(struct clean *, struct str *out);
/* Append, for example, "3 hidden characters, 1 direction control"; nothing if all counts are 0. Returns their sum. */
uint64_t clean_describe(const struct clean_found *, struct str *out);

/* Clean a whole string and append it as one line. Used for messages, file names, and titles in lists. */
void clean_line(const char *in, size_t n, struct str *out);

/* Return how many columns a code point takes: 1 or 2; 0 if it combines with the character before it; -1 for '\n', and
 * for code points that are never in clean text. */
int char_width(int32_t cp);
/* Return how many columns the clean text s[n] takes. */
size_t text_width(const char *s, size_t n);

/* ---- word wrap (wrap.c) ---- */

/* State of wrapping one text that arrives in parts. Set it to zeros when the cursor is at the start of a line. */
struct wrap {
	size_t col; /* number of columns of the line that were written so far */
	/* the members below are for wrap.c only */
	size_t gap; /* number of blanks that are not written yet; at the end of a line they are dropped */
	struct str word;
	/* number of columns of `word`, which is held back until it is known to fit on the line */
	size_t word_cols;
	unsigned char flows;       /* 1: write the remaining letters of this word at once */
	unsigned char joined;      /* 1: the last character was a joiner */
	unsigned char as_is, code; /* as_is is 1 if this line is not wrapped; `code` is 1 inside a fenced code block */
	/* what the line contains so far: only blanks; only blanks and fence characters; other text */
	enum { WRAP_INDENT, WRAP_FENCE, WRAP_BODY } head;
	size_t indent;
	int32_t fence;
	int n_fence;
};
void wrap_free(struct wrap *);
/* Append clean text, broken between words into lines of `width` columns; if `width` is 0, lines are not broken. A word
 * may be held back until the next blank or '\n'. The text may be passed in parts that begin and end between any two
 * characters. */
void wrap_text(struct wrap *, size_t width, const char *in, size_t n, struct str *out);

/* ---- punycode.c ---- */

/* Append the address with its host in ASCII ("xn--..."). Returns 1. If the host is in ASCII already or the address has
 * no host, append nothing and return 0. */
int address_in_ascii(const char *address, size_t n, struct str *out);

#endif
