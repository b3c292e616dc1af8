/* sessions/import/symbol_fonts.c - text for the characters of fonts that have an encoding of their own: Symbol,
 * Wingdings, Wingdings 2 and Webdings. Boxes, ticks, arrows and numbers have text; other pictures become bullets. */
#include "sessions/import/import_private.h"

#include <string.h>

struct picture {
	unsigned char byte;
	const char *text;
};

/* clang-format off */
static const struct picture wingdings[] = {
	{0x22, "✂"}, {0x28, "☎"}, {0x2a, "✉"}, {0x36, "⌛"}, {0x3f, "✍"}, {0x41, "✌"}, {0x43, "👍"}, {0x44, "👎"}, {0x45, "☜"}, {0x46, "☞"},
	{0x47, "☝"}, {0x48, "☟"}, {0x4a, "☺"}, {0x4c, "☹"}, {0x4e, "☠"}, {0x51, "✈"}, {0x52, "☼"}, {0x54, "❄"}, {0x6a, "&"}, {0x6b, "&"},
	{0x6e, "■"}, {0x6f, "☐"}, {0x70, "☐"}, {0x71, "☐"}, {0x72, "☐"}, {0x78, "☒"},
	{0x80, "⓪"}, {0x81, "①"}, {0x82, "②"}, {0x83, "③"}, {0x84, "④"}, {0x85, "⑤"}, {0x86, "⑥"}, {0x87, "⑦"}, {0x88, "⑧"}, {0x89, "⑨"}, {0x8a, "⑩"},
	{0x8c, "❶"}, {0x8d, "❷"}, {0x8e, "❸"}, {0x8f, "❹"}, {0x90, "❺"}, {0x91, "❻"}, {0x92, "❼"}, {0x93, "❽"}, {0x94, "❾"}, {0x95, "❿"},
	{0xa1, "○"}, {0xa8, "☐"}, {0xab, "★"}, {0xdf, "←"}, {0xe0, "→"}, {0xe1, "↑"}, {0xe2, "↓"}, {0xe8, "→"}, {0xef, "⇦"}, {0xf0, "⇨"},
	{0xf1, "⇧"}, {0xf2, "⇩"}, {0xf3, "⇔"}, {0xfb, "✗"}, {0xfc, "✓"}, {0xfd, "☒"}, {0xfe, "☑"}, {0, NULL},
}, wingdings2[] = {
	{0x4f, "✗"}, {0x50, "✓"}, {0x51, "☒"}, {0x52, "☑"}, {0x53, "☒"}, {0x54, "☒"}, {0xa2, "■"}, {0xa3, "☐"}, {0, NULL},
}, webdings[] = {
	{0x33, "◀"}, {0x34, "▶"}, {0x61, "✓"}, {0x63, "☐"}, {0x67, "■"}, {0x72, "✗"}, {0, NULL},
};
static const struct { const char *name; const struct picture *pictures; } fonts[] = {
	{"Symbol", NULL}, {"Wingdings", wingdings}, {"Wingdings 2", wingdings2}, {"Webdings", webdings},
};
/* clang-format on */

int symbol_font(const char *name, size_t n)
{
	for (size_t i = 0; i < LEN(fonts); i++)
		if (strlen(fonts[i].name) == n && !strncasecmp(fonts[i].name, name, n))
			return (int)i + 1;
	return 0;
}

const char *symbol_text(int font, unsigned char byte)
{
	const struct picture *p = font > 0 && font <= (int)LEN(fonts) ? fonts[font - 1].pictures : NULL;

	if (font == 1)
		return charset_symbol(byte);
	for (; p && p->text; p++)
		if (p->byte == byte)
			return p->text;
	return byte == ' ' ? " " : "\xe2\x80\xa2";
}
