/* ui/screen/theme.c - maps styles to colours and attributes, for terminals with 256, 8 or no colours. Text keeps the
 * terminal's own foreground and background.
 *
 * The themes dark and light use the palette colours 0-7, as the user has set them; some palettes make 8-15 grey. The
 * themes dusk (dark) and paper (light) use quieter fixed colours if the terminal has 256 colours; otherwise they look
 * like dark and light. The theme mono uses only bold, faint, underline and reverse. Heat maps need colours ordered by
 * brightness: fixed colours if there are 256, else three or four palette colours. */
#include "ui/screen/theme.h"

#include <stdlib.h>
#include <string.h>

enum { BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE, OWN = -1 };

struct theme {
	const char *name;
	int colour; /* 0: use no colours, even if the terminal has colours */
	struct look look[ST_HEAT];
	int has256; /* 1: use look256 if the terminal has 256 colours */
	struct look look256[ST_HEAT];
	int16_t heat256[HEATS], heat8[HEATS];
};

#define PART_COLOURS(pinned, newest, second, third)                                                                    \
	[ST_PART] = { pinned, OWN, 0 }, [ST_PART + 1] = { newest, OWN, 0 }, [ST_PART + 2] = { second, OWN, 0 },        \
	[ST_PART + 3] = { third, OWN, 0 }

/* Looks without colours. All other themes begin with these looks and override some of them. */
#define MONO                                                                                                           \
	[ST_TEXT] = { OWN, OWN, 0 }, [ST_FAINT] = { OWN, OWN, LOOK_FAINT }, [ST_STRONG] = { OWN, OWN, LOOK_BOLD },     \
	[ST_EMPH] = { OWN, OWN, LOOK_ITALIC }, [ST_QUESTION] = { OWN, OWN, LOOK_BOLD },                                \
	[ST_NOTICE] = { OWN, OWN, LOOK_FAINT }, [ST_ERROR] = { OWN, OWN, LOOK_BOLD | LOOK_UNDER },                     \
	[ST_WARNING] = { OWN, OWN, LOOK_BOLD }, [ST_HEADING] = { OWN, OWN, LOOK_BOLD | LOOK_UNDER },                   \
	[ST_QUOTE] = { OWN, OWN, LOOK_FAINT }, [ST_LINK] = { OWN, OWN, LOOK_UNDER },                                   \
	[ST_RULE] = { OWN, OWN, LOOK_FAINT }, [ST_BULLET] = { OWN, OWN, LOOK_BOLD }, [ST_CODE] = { OWN, OWN, 0 },      \
	[ST_CODE_KEYWORD] = { OWN, OWN, LOOK_BOLD }, [ST_CODE_STRING] = { OWN, OWN, 0 },                               \
	[ST_CODE_COMMENT] = { OWN, OWN, LOOK_FAINT }, [ST_CODE_NUMBER] = { OWN, OWN, 0 },                              \
	[ST_STATUS] = { OWN, OWN, LOOK_REVERSE }, [ST_STATUS_STRONG] = { OWN, OWN, LOOK_REVERSE | LOOK_BOLD },         \
	[ST_STATUS_WARNING] = { OWN, OWN, LOOK_REVERSE | LOOK_BOLD | LOOK_UNDER },                                     \
	[ST_HINT] = { OWN, OWN, LOOK_FAINT }, [ST_HINT_KEY] = { OWN, OWN, LOOK_BOLD },                                 \
	[ST_TITLE] = { OWN, OWN, LOOK_BOLD }, [ST_SELECTED] = { OWN, OWN, LOOK_REVERSE },                              \
	[ST_MATCH] = { OWN, OWN, LOOK_REVERSE | LOOK_UNDER }, [ST_PROMPT] = { OWN, OWN, LOOK_BOLD },                   \
	[ST_EVICTED] = { OWN, OWN, LOOK_FAINT }, [ST_METER] = { OWN, OWN, LOOK_BOLD },                                 \
	PART_COLOURS(OWN, OWN, OWN, OWN)

/* Looks in the terminal's own 8 colours, for all themes except mono. The parameters are colours: `theirs` for the
 * user's questions, keys, bullets and code; `notes` for warnings and for numbers in code; `numbers` for headings and
 * titles. */
#define COLOURED(theirs, notes, numbers)                                                                               \
	[ST_QUESTION] = { theirs, OWN, LOOK_BOLD }, [ST_ERROR] = { RED, OWN, LOOK_BOLD },                              \
	[ST_WARNING] = { notes, OWN, LOOK_BOLD }, [ST_HEADING] = { numbers, OWN, LOOK_BOLD },                          \
	[ST_LINK] = { BLUE, OWN, LOOK_UNDER }, [ST_BULLET] = { theirs, OWN, 0 }, [ST_CODE] = { theirs, OWN, 0 },       \
	[ST_CODE_KEYWORD] = { MAGENTA, OWN, 0 }, [ST_CODE_STRING] = { GREEN, OWN, 0 },                                 \
	[ST_CODE_NUMBER] = { notes, OWN, 0 }, [ST_STATUS_WARNING] = { notes, OWN, LOOK_REVERSE | LOOK_BOLD },          \
	[ST_HINT_KEY] = { theirs, OWN, 0 }, [ST_TITLE] = { numbers, OWN, LOOK_BOLD },                                  \
	[ST_MATCH] = { BLACK, YELLOW, 0 }, [ST_PROMPT] = { GREEN, OWN, LOOK_BOLD }, [ST_METER] = { GREEN, OWN, 0 }

/* Looks with fixed colours of the 256-colour palette. The parameters are colours: `theirs` for the user's questions,
 * links, bullets and keys; `notes` for warnings and for numbers in code; `numbers` for headings and titles; `keyword`
 * and `string` for keywords and strings in code; `grey` for less important text; `dim` for rules and evicted text;
 * `bar` and bar_back for the text and background of the status row; on_theirs for text on the background `theirs`. */
#define FIXED(theirs, notes, numbers, keyword, string, red, grey, dim, bar, bar_back, on_theirs)                       \
	[ST_FAINT] = { grey, OWN, 0 }, [ST_QUESTION] = { theirs, OWN, LOOK_BOLD }, [ST_NOTICE] = { grey, OWN, 0 },     \
	[ST_ERROR] = { red, OWN, LOOK_BOLD }, [ST_WARNING] = { notes, OWN, LOOK_BOLD },                                \
	[ST_HEADING] = { numbers, OWN, LOOK_BOLD }, [ST_QUOTE] = { grey, OWN, LOOK_ITALIC },                           \
	[ST_LINK] = { theirs, OWN, LOOK_UNDER }, [ST_RULE] = { dim, OWN, 0 }, [ST_BULLET] = { theirs, OWN, 0 },        \
	[ST_CODE] = { bar, OWN, 0 }, [ST_CODE_KEYWORD] = { keyword, OWN, 0 }, [ST_CODE_STRING] = { string, OWN, 0 },   \
	[ST_CODE_COMMENT] = { grey, OWN, LOOK_ITALIC }, [ST_CODE_NUMBER] = { notes, OWN, 0 },                          \
	[ST_STATUS] = { bar, bar_back, 0 }, [ST_STATUS_STRONG] = { bar, bar_back, LOOK_BOLD },                         \
	[ST_STATUS_WARNING] = { notes, bar_back, LOOK_BOLD }, [ST_HINT] = { grey, OWN, 0 },                            \
	[ST_HINT_KEY] = { theirs, OWN, 0 }, [ST_TITLE] = { numbers, OWN, LOOK_BOLD },                                  \
	[ST_SELECTED] = { on_theirs, theirs, 0 }, [ST_MATCH] = { 16, 222, 0 },                                         \
	[ST_PROMPT] = { string, OWN, LOOK_BOLD }, [ST_EVICTED] = { dim, OWN, 0 }, [ST_METER] = { string, OWN, 0 }

/* later initialisers override those of MONO on purpose */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct theme themes[] = {
	{
		.name = "dark",
		.colour = 1,
		.look = { MONO, COLOURED(CYAN, YELLOW, YELLOW), PART_COLOURS(YELLOW, GREEN, CYAN, BLUE) },
		.heat256 = { 17, 18, 25, 31, 38, 45, 87, 195 },
		.heat8 = { BLUE, BLUE, BLUE, CYAN, CYAN, CYAN, WHITE, WHITE },
	},
	{
		.name = "light",
		.colour = 1,
		.look = { MONO, COLOURED(BLUE, RED, MAGENTA), PART_COLOURS(MAGENTA, GREEN, BLUE, CYAN) },
		.heat256 = { 195, 159, 117, 75, 33, 26, 19, 17 },
		.heat8 = { WHITE, WHITE, CYAN, CYAN, CYAN, BLUE, BLUE, BLACK },
	},
	{
		.name = "dusk",
		.colour = 1,
		.has256 = 1,
		.look = { MONO, COLOURED(CYAN, YELLOW, YELLOW), PART_COLOURS(YELLOW, GREEN, CYAN, BLUE) },
		.look256 = { MONO, FIXED(110, 179, 180, 175, 150, 203, 246, 241, 252, 237, 234),
	                     PART_COLOURS(179, 150, 73, 104) },
		.heat256 = { 235, 237, 59, 66, 73, 109, 152, 195 },
		.heat8 = { BLUE, BLUE, BLUE, CYAN, CYAN, CYAN, WHITE, WHITE },
	},
	{
		.name = "paper",
		.colour = 1,
		.has256 = 1,
		.look = { MONO, COLOURED(BLUE, RED, MAGENTA), PART_COLOURS(MAGENTA, GREEN, BLUE, CYAN) },
		.look256 = { MONO, FIXED(25, 130, 90, 90, 28, 160, 242, 248, 236, 253, 231),
	                     PART_COLOURS(130, 28, 31, 61) },
		.heat256 = { 255, 253, 188, 152, 110, 67, 24, 17 },
		.heat8 = { WHITE, WHITE, CYAN, CYAN, CYAN, BLUE, BLUE, BLACK },
	},
	{
		.name = "mono",
		.look = { MONO },
	},
};
#pragma GCC diagnostic pop
enum { THEMES = LEN(themes) };
static const struct theme *const mono = &themes[THEMES - 1];

/* 1 if colorfgbg, such as "15;0" or "0;default;15", names a light background: its last number is 7 or 9 to 15. */
static int is_light(const char *colorfgbg)
{
	const char *last = colorfgbg ? strrchr(colorfgbg, ';') : NULL;
	char *end;
	long n;

	if (!last || last[1] < '0' || last[1] > '9')
		return 0;
	n = strtol(last + 1, &end, 10);
	return !*end && (n == 7 || (n >= 9 && n <= 15));
}

const struct theme *theme_find(const char *name, const char *colorfgbg)
{
	if (!*name)
		name = is_light(colorfgbg) ? "paper" : "dusk";
	for (size_t i = 0; i < THEMES; i++)
		if (!strcmp(themes[i].name, name))
			return &themes[i];
	return NULL;
}

const char *theme_at(size_t i)
{
	return i < THEMES ? themes[i].name : NULL;
}

static struct look plain_look(const struct theme *t, unsigned style, int colours)
{
	struct look look = { OWN, OWN, 0 };
	unsigned step = style - ST_HEAT;

	if (style >= ST_COUNT)
		return look;
	if (style < ST_HEAT)
		return !colours ? mono->look[style] : colours >= 256 && t->has256 ? t->look256[style] : t->look[style];
	if (colours)
		look.fg = colours >= 256 ? t->heat256[step] : t->heat8[step];
	else
		look.attrs = step < 3 ? LOOK_FAINT : step < 6 ? 0 : LOOK_BOLD;
	return look;
}

struct look theme_look(const struct theme *t, unsigned style, uint8_t back, int colours)
{
	struct look look;

	if (!t->colour || colours < 8)
		colours = 0;
	look = plain_look(t, style & STYLE_MASK, colours);
	if (back)
		look.bg = plain_look(t, back, colours).fg;
	if (style & STYLE_REVERSE)
		look.attrs ^= LOOK_REVERSE;
	if (style & STYLE_BOLD)
		look.attrs |= LOOK_BOLD;
	if (style & STYLE_FAINT)
		look.attrs |= LOOK_FAINT;
	if (style & STYLE_UNDER)
		look.attrs |= LOOK_UNDER;
	return look;
}
