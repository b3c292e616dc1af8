/* engine/base/utf8.h - the bytes of UTF-8 text. */
#ifndef WEIR_UTF8_H
#define WEIR_UTF8_H

/* 1 if byte c is inside a UTF-8 character, behind its first byte. */
static inline int utf8_continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

#endif
