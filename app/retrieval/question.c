/* app/retrieval/question.c - tells by its words whether a text is a question, and whether it refers to earlier
 * messages (retrieval_private.h). */
#include <ctype.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"

/* pronouns: may refer to earlier messages. beginnings: as the first word they continue the conversation. Languages:
 * English, German, French, Spanish, Italian, Portuguese, Dutch. */
static const char pronouns[] =
	" he she it they him her them his hers its their theirs this these those er sie es ihn ihm ihr ihnen sein seine seinen seiner ihre ihren ihrer dessen deren "
	"dies diese dieser dieses davon damit daran darin daf\xc3\xbcr il elle ils elles lui leur leurs cela \xc3\xa7"
	"a celui celle \xc3\xa9l ella ellos ellas su sus eso "
	"esto lei loro suo sua suoi questo quello quella ele ela eles elas seu seus dele dela isso isto hij zij ze hem haar hun ervan daarvan daarmee ";
static const char beginnings[] = " and but so or then und aber oder et mais ou y pero e ma ed mas maar ";

/* 1 if the text has a word of the list `words`, or its first word is in the list `first` (NULL: no such list). Lists
 * have lower-case words separated by blanks. */
static int text_has_word(const char *text, size_t n, const char *words, const char *first)
{
	char word[16] = " ";

	for (size_t i = 0; i < n; first = NULL) {
		size_t len = 1;

		while (i < n && ((unsigned char)text[i] <= ' ' || ispunct((unsigned char)text[i])))
			i++;
		for (; i < n && (unsigned char)text[i] > ' ' && !ispunct((unsigned char)text[i]); i++)
			if (len < sizeof word - 2)
				word[len++] = (char)tolower((unsigned char)text[i]);
		word[len] = ' ';
		word[len + 1] = 0;
		if (len > 1 && (strstr(words, word) || (first && strstr(first, word))))
			return 1;
	}
	return 0;
}

int question_refers(const char *question, size_t n)
{
	return text_has_word(question, n, pronouns, beginnings);
}

/* Question words in English, German, French, Spanish, Italian, Portuguese and Dutch. "que" and "come" are missing,
 * because they also occur in requests. */
static const char interrogatives[] =
	" what whats which who whos whom whose when where wheres why how was wer wen wem wessen wann wo woher wohin warum wieso wie welche welcher welches "
	"welchen welchem wieviel quel quelle quels quelles qui quand o\xc3\xb9 pourquoi comment combien qu\xc3\xa9 qui\xc3\xa9n cu\xc3\xa1l cu\xc3\xa1ndo d\xc3\xb3nde "
	"c\xc3\xb3mo cu\xc3\xa1nto cu\xc3\xa1ntos chi che cosa quale quali quando dove perch\xc3\xa9 quanto quanti quem qual quais onde porque quantos "
	"wat wie welk welke wanneer waar waarom hoe hoeveel ";

int question_asks(const char *text, size_t n)
{
	static const char wide[] = "\xef\xbc\x9f", arabic[] = "\xd8\x9f"; /* question marks */

	return memchr(text, '?', n) || memmem(text, n, wide, sizeof wide - 1) ||
	       memmem(text, n, arabic, sizeof arabic - 1) || text_has_word(text, n, interrogatives, NULL);
}
