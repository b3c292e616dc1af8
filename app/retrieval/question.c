/* app/retrieval/question.c - tells by the words of a message what the message asks for: a subject, a new text or
 * nothing. Also tells whether it refers to earlier messages (retrieval_private.h). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "app/retrieval/retrieval_private.h"
#include "engine/base/sentences.h"
#include "engine/base/utf8.h"

/* Words that refer to earlier messages, in English, German, French, Spanish, Italian, Portuguese and Dutch. A word of
 * `pronouns` may be anywhere in the question. A word of `beginnings` must be its first word. */
static const char pronouns[] =
	" he she it they him her them his hers its their theirs this these those er sie es ihn ihm ihr ihnen sein seine seinen seiner ihre ihren ihrer dessen deren "
	"dies diese dieser dieses davon damit daran darin daf\xc3\xbcr il elle ils elles lui leur leurs cela \xc3\xa7"
	"a celui celle \xc3\xa9l ella ellos ellas su sus eso "
	"esto lei loro suo sua suoi questo quello quella ele ela eles elas seu seus dele dela isso isto hij zij ze hem haar hun ervan daarvan daarmee ";
static const char beginnings[] = " and but so or then und aber oder et mais ou y pero e ma ed mas maar ";

/* 1 if the text has a word of the list `words`, or if the text's first word is in the list `first` (may be NULL). The
 * words in a list are in lower case and separated by blanks. */
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

/* Words that are frequent in English questions and rare in questions in other languages. */
static const char english[] =
	" the what whats which who whos whom whose when where why how did does his their and with ";

int question_is_english(const char *question, size_t n)
{
	return text_has_word(question, n, english, NULL);
}

size_t english_words(const char *text, size_t n, size_t *words)
{
	struct word w;
	size_t found = 0;

	for (size_t i = 0; word_next(text, n, &i, &w); ++*words)
		found += (size_t)text_has_word(w.p, w.n, english, NULL);
	return found;
}

/* Words with which users speak of themselves, in English, German, French, Spanish, Italian and Portuguese, and a few
 * verbs of languages that leave "I" out. What is frequent with another meaning in one of the languages is missing: uns,
 * nos, mes, ci, sono. */
static const char own[] =
	" i me my mine we us our ours ich mir mich mein meine meinen meinem meiner meines wir unser unsere unseren unserem unserer "
	"je j moi mon ma nous notre yo mi m\xc3\xad mis nuestro nuestra nuestros nuestras soy estoy tengo puedo "
	"io mio mia miei mie noi nostro nostra nostri nostre ho sto posso devo "
	"eu meu minha meus minhas n\xc3\xb3s nosso nossa nossos nossas sou estou tenho ";

int question_is_own(const char *question, size_t n)
{
	return text_has_word(question, n, own, NULL);
}

/* ---- the question in a long message ---- */

/* A message with more than LONG_LEAST bytes has a text beside the question. Of it, at most ASKED_MOST bytes are searched
 * for. */
enum { LONG_LEAST = 4000, ASKED_MOST = 500 };

static int has_question_mark(const char *s, size_t n)
{
	return memchr(s, '?', n) || memmem(s, n, "\xef\xbc\x9f", 3) || memmem(s, n, "\xd8\x9f", 2);
}

const char *question_in_message(const char *text, size_t *n)
{
	const char *end = text + *n, *first = text, *last, *to;
	size_t most;

	if (*n <= LONG_LEAST)
		return text;
	while (first < end && (unsigned char)*first <= ' ')
		first++;
	while (end > first && (unsigned char)end[-1] <= ' ')
		end--;
	/* the first line, or the beginning of a longer one */
	most = MIN((size_t)(end - first), ASKED_MOST);
	to = memchr(first, '\n', most);
	if (!to)
		to = first + most == end ? end : first + utf8_back(first, most);
	/* the last line, or the last sentences of a longer one */
	last = end - most;
	while (last < end && utf8_continues(*last))
		last++;
	if (memrchr(last, '\n', (size_t)(end - last)))
		last = (const char *)memrchr(last, '\n', (size_t)(end - last)) + 1;
	else
		for (const char *p = last; p < end - 1; p++)
			if (sentence_ends(text, *n, (size_t)(p - text))) {
				last = p;
				break;
			}
	if (!has_question_mark(last, (size_t)(end - last)) && !question_wants_text(last, (size_t)(end - last)) &&
	    (has_question_mark(first, (size_t)(to - first)) || question_wants_text(first, (size_t)(to - first)))) {
		last = first;
		end = to;
	}
	*n = (size_t)(end - last);
	return last;
}

/* ---- who or what is X ---- */

/* Words of questions like "who is X", in English, German, French and Spanish. `askers` has question words; `contracted`
 * has question words joined with "is"; `being` has forms of "to be"; `leading` has words that may come before the
 * question word; `filler` has words that are not part of X. */
static const char
	askers[] = " who what wer was qui qu quoi qui\xc3\xa9n quien qu\xc3\xa9 que ",
	contracted[] = " whos whats ", being[] = " is are was were ist sind war est es son s ",
	leading[] = " so and but und aber et mais y pero ",
	filler[] =
		" who what whos whats is are was were s the a an this that person thing he she it they meaning mean "
		"means for of in does do did so and but tell me about explain define why how when where which not no "
		"yes then wer was ist sind war der die das ein eine qui qu quoi que est ce c le la les un une l "
		"qui\xc3\xa9n quien qu\xc3\xa9 es son el los las una ";

static int in_list(const char *list, const char *word)
{
	char padded[SUBJECT_BYTES + 2];

	snprintf(padded, sizeof padded, " %s ", word);
	return strstr(list, padded) != NULL;
}

/* 1 for the first of the three UTF-8 bytes of a typographic quote, dash or similar character. */
static int is_punctuation(char c)
{
	return (unsigned char)c == 0xe2;
}

static int is_word_byte(char c)
{
	return byte_is_alnum(c) || c == '_' || c == '-' || c == '.' || ((unsigned char)c >= 0x80 && !is_punctuation(c));
}

/* Copy the next word of a question into word[], in lower case, without full stops at its ends. Returns the byte of q at
 * which the word ends. At the end of the question word[] is empty. */
static size_t next_word(const char *q, size_t n, size_t at, char word[SUBJECT_BYTES])
{
	size_t len = 0;

	for (; at < n && (!is_word_byte(q[at]) || q[at] == '.'); at += is_punctuation(q[at]) && n - at >= 3 ? 3 : 1)
		;
	for (; at < n && is_word_byte(q[at]); at++)
		if (len < SUBJECT_BYTES - 1)
			word[len++] = (char)tolower((unsigned char)q[at]);
	while (len && word[len - 1] == '.')
		len--;
	word[len] = 0;
	return at;
}

/* Verbs that ask for a new text, in English, German, French, Spanish, Italian, Portuguese and Dutch; and words of
 * politeness that may come before the verb. next_word() changes the case of ASCII letters only. */
static const char writing[] =
	" write summarize summarise translate rewrite rephrase paraphrase continue compose draft shorten simplify correct proofread "
	"schreib schreibe \xc3\xbc"
	"bersetz \xc3\xbc"
	"bersetze \xc3\x9c"
	"bersetz \xc3\x9c"
	"bersetze fasse formuliere k\xc3\xbcrze korrigiere \xc3\xa9"
	"cris \xc3\xa9"
	"crivez \xc3\x89"
	"cris \xc3\x89"
	"crivez "
	"r\xc3\xa9sume r\xc3\xa9sumez traduis traduisez reformule reformulez corrige corrigez escribe escriba resume resuma traduce traduzca "
	"reescribe scrivi riassumi traduci riscrivi correggi escreve escreva traduz traduza reescreva corrija schrijf vertaal herschrijf ";
static const char polite[] =
	" please can could would will you now then so and bitte kannst k\xc3\xb6nntest du jetzt pouvez vous peux tu por favor puedes "
	"puede per favore puoi kun je ";

int question_wants_text(const char *question, size_t n)
{
	char word[SUBJECT_BYTES];
	size_t at = 0;

	do
		at = next_word(question, n, at, word);
	while (*word && in_list(polite, word));
	return *word && in_list(writing, word);
}

/* Words of greetings, thanks and assent, in the same languages as `writing`. */
static const char small_talk[] =
	" hi hello hey thanks thank thx you very much so ok okay cool great nice good perfect awesome wow lol yes no yep nope sure please bye "
	"goodbye morning afternoon evening night day fine well alright hallo danke vielen dank dir gut super toll ja nein bitte guten morgen "
	"tag abend tsch\xc3\xbcss bonjour bonsoir salut merci beaucoup oui non bien d accord hola gracias muchas vale s\xc3\xad bueno buenos "
	"buenas d\xc3\xad"
	"as tardes noches adi\xc3\xb3s ciao grazie mille s\xc3\xac va bene buongiorno buonasera ol\xc3\xa1 oi obrigado "
	"obrigada sim n\xc3\xa3o tudo bem bom dia tchau hoi dag dank je bedankt nee goed goedemorgen doei ";

int question_is_small_talk(const char *question, size_t n)
{
	char word[SUBJECT_BYTES];
	size_t at = 0;
	int words = 0;

	for (; at = next_word(question, n, at, word), *word; words++)
		if (!in_list(small_talk, word))
			return 0;
	return words > 0;
}

/* Function words of English questions that are not in `filler` or `pronouns`. */
static const char helping[] =
	" which whose whom many much long far often old big be been am can could will would shall should may "
	"might must has have had having to on at by with from into than or as if i you we us "
	"there here what's else one ones too also ";

int question_own_words(const char *question, size_t n)
{
	char word[SUBJECT_BYTES];
	size_t at = 0;
	int count = 0;

	while (at = next_word(question, n, at, word), *word)
		count += !in_list(filler, word) && !in_list(pronouns, word) && !in_list(beginnings, word) &&
		         !in_list(helping, word);
	return count;
}

struct subject question_subject(const char *question, size_t n)
{
	struct subject s = { .n = 0 };
	char word[SUBJECT_BYTES], last[SUBJECT_BYTES] = "", before[SUBJECT_BYTES] = "";
	size_t at = 0, all = 0;
	int asks = 0, content = 0;

	for (;;) {
		at = next_word(question, n, at, word);
		if (!*word)
			break;
		if (!all && in_list(leading, word))
			continue;
		/* recognise questions about X such as "whats Lincoln", "who is Lincoln", "Lincoln who is he" */
		asks |= !all && in_list(contracted, word);
		asks |= (all == 1 || in_list(askers, before)) && in_list(askers, last) && in_list(being, word);
		asks |= in_list(askers, before) && in_list(being, last) && in_list(" he she it that this ", word);
		if (!in_list(filler, word)) {
			if (content < SUBJECT_WORDS)
				memcpy(s.word[content], word, sizeof word);
			content++;
		}
		memcpy(before, last, sizeof before);
		memcpy(last, word, sizeof last);
		all++;
	}
	/* recognise shorter questions about X, too: "Lincoln", "Lincoln who", "Lincoln meaning" */
	asks |= all <= 2 || in_list(" who meaning ", last);
	s.n = asks && content <= SUBJECT_WORDS ? content : 0;
	return s;
}
