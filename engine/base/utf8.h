/* engine/base/utf8.h - classes of bytes, and steps from character to character in UTF-8 text.
 *
 * The classes are ASCII classes, with one extension: byte_is_letter() and byte_is_word() also accept bytes 0x80 to
 * 0xff, which belong to non-ASCII characters. base.h has functions that decode and encode characters. */
#ifndef WEIR_UTF8_H
#define WEIR_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* 1 if c is a space, \t, \n, \v, \f or \r. */
static inline int byte_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* 1 if c is a space, \t, \n or \r: the white space of XML and JSON. */
static inline int byte_is_xml_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline int byte_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline int byte_is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline int byte_is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

/* 1 if c is an ASCII letter or digit. */
static inline int byte_is_alnum(char c)
{
	return byte_is_upper(c) || byte_is_lower(c) || byte_is_digit(c);
}

/* 1 if c is an ASCII letter or a byte from 0x80 to 0xff. */
static inline int byte_is_letter(char c)
{
	return byte_is_upper(c) || byte_is_lower(c) || (unsigned char)c >= 0x80;
}

/* 1 if c is an ASCII letter, an ASCII digit or a byte from 0x80 to 0xff. */
static inline int byte_is_word(char c)
{
	return byte_is_letter(c) || byte_is_digit(c);
}

/* 1 if byte c continues a UTF-8 character, because it is not the first byte of a character. */
static inline int utf8_continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Return the number of characters in p[0..n). */
static inline size_t utf8_characters(const char *p, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += !utf8_continues(p[i]);
	return count;
}

/* Return the offset of the first byte of the character that contains byte p[at]. */
static inline size_t utf8_back(const char *p, size_t at)
{
	while (at && utf8_continues(p[at]))
		at--;
	return at;
}

/* Return the start of the first character at or after byte `at` of p[0..n), or n. */
static inline size_t utf8_forward(const char *p, size_t n, size_t at)
{
	while (at < n && utf8_continues(p[at]))
		at++;
	return at;
}

/* Return the offset at which the character before byte `at` begins. `at` must be larger than `from`, and the result is
 * at least `from`. In invalid UTF-8 the result is at most 4 bytes before `at`. */
static inline size_t utf8_prev(const char *p, size_t from, size_t at)
{
	size_t i = at - 1;

	while (i > from && at - i < 4 && utf8_continues(p[i]))
		i--;
	return i;
}

/* 1 if cp is a letter of a common script (a table in base.c). Every Unicode version and every tokenizer treats such a
 * code point as a letter. Returns 0 for rarer letters. */
int utf8_is_letter(int32_t cp);

#endif
