/* app/retrieval/about_document.c - recognises questions about a document as a whole, and finds the beginning of the
 * document, which answers some of them (retrieval.h).
 *
 * A search by words cannot answer "Who wrote it?", because a title page has none of these words. A question is about
 * the whole document if two conditions hold. All words of the question are in the table below, in one language; and at
 * least one of them names a document or a property of documents. A word that is not in the table means that the
 * question asks for a detail, such as "costs" in "What does it say about costs?". */
#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "app/retrieval/retrieval_private.h"

/* Word lists of a language, by which a question about a whole document is recognised. The words are in lower case and
 * separated by blanks. An entry "word*" matches every word that begins with "word".
 *     nothing:  function words and fillers, which are ignored;
 *     says:     verbs for what a document does, such as "says" and "mentions";
 *     document: nouns for a document, such as "book";
 *     title:    words for title, author, date and the like;
 *     about:    words for the subject of a document;
 *     points:   words for main points;
 *     parts:    parts of a document that are asked for in general ("the results");
 *     summary:  words that ask for a summary. */
static const struct language {
	const char *nothing, *says, *document, *title, *about, *points, *parts, *summary;
} languages[] = {
	{
		/* English */
		" a an the and or of in on at to for with from by as is are was were be been do does did has have had can could will would shall "
		"should may might i me my we us you your it its they them their this that these those there here what whats which who whom "
		"whose when where why how whos s re m d ll please kindly just only now then also so up briefly quickly shortly short brief concise quick "
		"simple simply long whole entire full complete overall general all some any one two three four five few tell give show let write "
		"make provide create get need want like know explain describe list name find help understand read called first hello hi hey thanks "
		"thank ok okay exactly actually more sentence sentences word words paragraph paragraphs line lines bullet bullets terms form if "
		"possible look main most kind sort type year go documents docs texts papers articles files reports pages ",
		" say says said state states mention mentions ",
		" document doc text paper article book ebook report file story novel manual essay thesis dissertation study publication work piece pdf "
		"attachment content contents material guide specification spec poem* memo notes transcript presentation ",
		" title* subtitle* author* writer* wrote written editor* published publisher* date dated dedicat* translated translator* illustrated illustrator* edition isbn copyright* licen* affiliation* ",
		" about topic* subject* theme* purpose aim* goal* deals dealing cover covers ",
		" key central core major important finding* contribution* claim* point* idea* message* argument* "
		"takeaway* lesson* highlight* insight* outcome* essence ",
		" result* conclusion* conclude* abstract introduction* method* discussion* ",
		" summar* synops* tldr tl dr recap* overview gist nutshell condense* digest sum ",
	},
	{
		/* German */
		" der die das den dem des ein eine einen einem einer eines und oder von vom in im zu zum zur mit f\xc3\xbcr auf aus bei ist sind war "
		"waren hat haben wird wurde wurden werden kann kannst k\xc3\xb6nnen k\xc3\xb6nntest k\xc3\xb6nnten k\xc3\xb6nnte mir mich uns du sie er es ich wir ihr bitte mal "
		"kurz kurze kurzen k\xc3\xbcrze knapp knappe doch was wer wem wie wo wann warum welche welcher welches welchen wessen geht gehts hei\xc3\x9ft heisst "
		"lautet dieser diese dieses diesem diesen hier sag sage erkl\xc3\xa4re erkl\xc3\xa4r beschreibe beschreib gib geben mach mache schreib "
		"schreibe nenne nenn zeig zeige erstelle fass fasse fassen ganze ganzen gesamte gesamten alle alles satz satz s\xc3\xa4tze s\xc3\xa4tzen "
		"wort worten w\xc3\xb6rter w\xc3\xb6rtern zwei drei vier f\xc3\xbcnf dazu daf\xc3\xbcr eigentlich wohl ",
		" sagt steht ",
		" dokument* text* buch buches artikel* bericht* datei* aufsatz* arbeit studie* geschichte roman* pdf ",
		" titel* \xc3\xbc"
		"berschrift autor* verfasser* schrieb geschrieben verfasst verfa\xc3\x9ft verlag ver\xc3\xb6"
		"ffentlicht erschien erschienen gewidmet widmung* auflage \xc3\xbc"
		"bersetz* ",
		" worum wovon worin handelt thema themen zweck ziel inhalt gegenstand ",
		" wichtig* haupt* kern* erkenntnis* zentral* aussage* punkte ",
		" ergebnis* schlussfolgerung* fazit einleitung methode* ",
		" zusammen zusammenfass* zusammenzufassen zusammengefasst \xc3\xbc"
		"berblick kurzfassung inhaltsangabe ",
	},
	{
		/* French */
		" le la les l un une des du de d et ou en dans \xc3\xa0 au aux pour par avec sur est sont \xc3\xa9tait a ont c ce cet cette ces \xc3\xa7"
		"a cela ceci "
		"il elle on ils elles je j me m moi nous vous tu te t s se si qui que qu quoi quel quelle quels quelles quand o\xc3\xb9 comment pourquoi peux "
		"peut pouvez pourriez pourrais veux voudrais veuillez svp stp pla\xc3\xaet plait dis dites donne donner donnez fais faire faites explique "
		"expliquez d\xc3\xa9"
		"cris d\xc3\xa9"
		"crivez bri\xc3\xa8vement bref br\xc3\xa8ve court courte tout toute entier enti\xc3\xa8re phrase phrases mot mots ligne "
		"lignes deux trois quatre cinq nom ",
		" dit ",
		" document* texte* livre* article* rapport* fichier* roman* \xc3\xa9tude* histoire m\xc3\xa9moire ouvrage* \xc5\x93uvre* pdf ",
		" titre* auteur* autrice* \xc3\xa9"
		"crit \xc3\xa9"
		"crite r\xc3\xa9"
		"dig\xc3\xa9* \xc3\xa9"
		"diteur* publi\xc3\xa9* intitul\xc3\xa9* appelle d\xc3\xa9"
		"di* traduct* ",
		" parle agit traite sujet* th\xc3\xa8me* but objet ",
		" principa* cl\xc3\xa9* important* id\xc3\xa9"
		"e* point* essentiel* message* ",
		" r\xc3\xa9sultat* conclusion* introduction m\xc3\xa9thode* ",
		" r\xc3\xa9sum* synth\xc3\xa8se synth\xc3\xa9tis* r\xc3\xa9"
		"capitul* aper\xc3\xa7u ",
	},
	{
		/* Spanish */
		" el la los las lo un una unos unas y o de del en a al para por con sobre es son fue era ha han se su sus este esta esto estos estas ese "
		"esa eso qu\xc3\xa9 que qui\xc3\xa9n qui\xc3\xa9nes quien cu\xc3\xa1l cu\xc3\xa1les cual cu\xc3\xa1ndo cuando d\xc3\xb3nde c\xc3\xb3mo como me m\xc3\xad te nos usted "
		"puedes puede podr\xc3\xad"
		"as podr\xc3\xad"
		"a quiero quisiera favor dime di dame da haz hazme hacer explica expl\xc3\xad"
		"came describe escribe breve "
		"brevemente corto corta todo toda completo frase frases palabra palabras l\xc3\xadnea l\xc3\xadneas dos tres cuatro cinco hay nombre ",
		" dice ",
		" documento* texto* libro* art\xc3\xad"
		"culo* articulo* informe* archivo* fichero* novela* estudio* historia obra* pdf ",
		" t\xc3\xadtulo* titulo* autor* escribi\xc3\xb3 escrito escrita publicado publicada editorial llama dedica* traduct* ",
		" trata tema* asunto objetivo ",
		" principal* clave* importante* hallazgo* idea* punto* mensaje* ",
		" resultado* conclusi* introducci* m\xc3\xa9todo* ",
		" resum* s\xc3\xadntesis sintetiza* ",
	},
	{
		/* Italian */
		" il lo la i gli le l un uno una di del dello della dei degli delle d da dal in nel nella a al allo alla per con su e o \xc3\xa8 sono era ha "
		"hanno si mi ci ti questo questa questi quest che chi cosa cos qual quale quali quando dove come perch\xc3\xa9 puoi pu\xc3\xb2 potresti potrebbe "
		"vorrei favore dimmi dammi dai fai fammi fare spiega spiegami descrivi scrivi breve brevemente tutto tutta intero frase frasi parola "
		"parole riga righe due tre quattro cinque c stato stata nome ",
		" dice ",
		" documento* testo* libro* articolo* rapporto* relazione file romanzo* studio* storia opera* pdf ",
		" titolo* autore autori autrice scritto scritta scrisse pubblicato pubblicata editore intitola chiama dedica* traduttor* ",
		" parla tratta tema* argomento* scopo oggetto ",
		" principal* chiave important* idea idee punto punti messaggi* ",
		" risultat* conclusion* introduzione metod* ",
		" riassu* sintesi riepilog* sintetizza* ",
	},
	{
		/* Portuguese */
		" o a os as um uma de do da dos das em no na nos nas deste desta neste para por com sobre e ou \xc3\xa9 s\xc3\xa3o foi era tem se me mim lhe voc\xc3\xaa "
		"este esta isto isso esse essa que quem qual quais quando onde como porqu\xc3\xaa pode podes poderia quero gostaria favor diga diz-me d\xc3\xaa "
		"d\xc3\xa1 fa\xc3\xa7"
		"a faz explique descreva escreva breve brevemente todo toda inteiro frase frases palavra palavras linha linhas dois duas tr\xc3\xaas "
		"quatro cinco nome ",
		" diz ",
		" documento* texto* livro* artigo* relat\xc3\xb3rio* arquivo* ficheiro* romance* estudo* hist\xc3\xb3ria obra* pdf ",
		" t\xc3\xadtulo* titulo* autor* escreveu escrito escrita publicado publicada editora chama dedica* tradut* ",
		" trata fala tema* assunto* objetivo ",
		" principa* chave important* descoberta* ideia* ponto* mensage* ",
		" resultado* conclus* introdu* m\xc3\xa9todo* ",
		" resum* s\xc3\xadntese sintetiz* ",
	},
	{
		/* Dutch */
		" de het een en of van in op te aan voor met over is zijn was waren wordt werd heeft hebben kan kun kunt kunnen zou mij me ons je jij u ik wij "
		"deze dit die dat er wat wie welke welk wanneer waar hoe waarom alsjeblieft alstublieft graag geef vertel schrijf maak leg uit beschrijf "
		"korte kort beknopt heel hele gehele alle alles zin zinnen woord woorden regel regels twee drie vier vijf vat naam ",
		" zegt staat ",
		" document* tekst* boek* artikel* rapport* bestand* verslag* roman* studie* verhaal pdf ",
		" titel* auteur* schrijver* schreef geschreven uitgever* gepubliceerd heet opgedragen vertaler* ",
		" gaat waarover onderwerp* thema* doel ",
		" belangrijk* hoofd* bevinding* kern* punten ",
		" conclusie* resulta* inleiding methode* ",
		" samen samenvat* samengevat overzicht ",
	},
};
/* After one of these words, "book" or "text" means another document: "Which book did he write?" */
static const char which[] =
	" which what any welche welches welchen welcher quel quelle qu\xc3\xa9 cu\xc3\xa1l quale che qual welk welke ";
/* A number before one of these words is the length of a summary: "in 100 words". */
static const char words_of_length[] =
	" words w\xc3\xb6rter w\xc3\xb6rtern worten mots palabras parole palavras woorden ";
/* The writer of one of these parts is not the writer of the document: "Who wrote this line?" */
static const char parts_of_text[] =
	" line lines sentence sentences paragraph paragraphs word words zeile zeilen satz s\xc3\xa4tze wort "
	"ligne lignes phrase phrases mot frase frases palabra riga righe parola linha linhas palavra zin woord ";

enum { QUESTION_MOST = 200, WORD_MOST = 40, NAME_LEAST = 3 }; /* bytes */

/* ---- the words of a question ---- */

/* 1 if the list has the word, or has an entry "prefix*" where the word begins with this prefix. */
static int list_has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list + 1, *end; *p; p = end + 1) {
		size_t len = (size_t)((end = strchr(p, ' ')) - p);

		if (p[len - 1] == '*' ? n >= len - 1 && !strncmp(p, word, len - 1) : n == len && !strncmp(p, word, n))
			return 1;
	}
	return 0;
}

/* Return the length of the non-ASCII punctuation mark (Latin-1 sign, typographic quote or dash) at s, or 0 if there
 * is none. */
static size_t punctuation_bytes(const char *s, size_t n)
{
	if (n >= 2 && (unsigned char)s[0] == 0xc2)
		return 2;
	return n >= 3 && (unsigned char)s[0] == 0xe2 && (unsigned char)s[1] == 0x80 ? 3 : 0;
}

/* Copy the next word of s[*at .. n) in lower case, and set *at to the end of this word. Returns 1; 0 at the end; -1 if
 * the word is longer than any word of the word lists. */
static int next_word(const char *s, size_t n, size_t *at, char word[WORD_MOST])
{
	size_t i = *at, skip, len = 0;

	for (; i < n && ((skip = punctuation_bytes(s + i, n - i)) || !byte_is_word(s[i])); i += skip ? skip : 1)
		;
	for (; i < n && byte_is_word(s[i]) && !punctuation_bytes(s + i, n - i) && len < WORD_MOST; i++) {
		int capital =
			(s[i] >= 'A' && s[i] <= 'Z') || (len && (unsigned char)s[i - 1] == 0xc3 &&
		                                         (unsigned char)s[i] >= 0x80 && (unsigned char)s[i] <= 0x9e);
		word[len++] = (char)(capital ? s[i] + 32 : s[i]);
	}
	*at = i;
	if (len == WORD_MOST)
		return -1;
	word[len] = 0;
	return len > 0;
}

/* Classify a question by the word lists of one language. If the question names the wanted length of a summary, *words
 * is set to it. */
static enum whole_question question_classify(const struct language *l, const char *s, size_t n, int32_t *words)
{
	int document = 0, title = 0, about = 0, points = 0, parts = 0, summary = 0, says = 0, detail = 0, rc;
	char word[WORD_MOST] = "", before[WORD_MOST];
	long number = 0;

	for (size_t at = 0; memcpy(before, word, sizeof word), (rc = next_word(s, n, &at, word)) > 0;) {
		int is_number = strspn(word, "0123456789") == strlen(word) && strlen(word) < 6;

		if (number && list_has_word(words_of_length, word))
			*words = (int32_t)number;
		number = is_number ? atol(word) : 0;
		detail |= list_has_word(parts_of_text, word);
		if (is_number || list_has_word(l->nothing, word))
			continue;
		if (list_has_word(l->summary, word))
			summary = 1;
		else if (list_has_word(l->title, word))
			title = 1;
		else if (list_has_word(l->about, word))
			about = 1;
		else if (list_has_word(l->points, word))
			points = 1;
		else if (list_has_word(l->parts, word))
			parts = 1;
		else if (list_has_word(l->says, word))
			says = 1;
		else if (list_has_word(l->document, word) && !(*before && list_has_word(which, before)))
			document = 1;
		else
			return WHOLE_NOT;
	}
	/* A number at the end names a section ("4.3.1"): the question asks for a detail. */
	if (rc < 0 || number || (summary && (says || parts || title)) || (says && !document) || (title && detail))
		return WHOLE_NOT;
	return summary                       ? WHOLE_SUMMARY
	       : title                       ? WHOLE_TITLE
	       : about                       ? WHOLE_ABOUT
	       : points || parts || document ? WHOLE_POINTS
	                                     : WHOLE_NOT;
}

/* If the question contains a document's name, with or without its extension, overwrite the name with blanks and return
 * 1. Otherwise return 0. The words of the name are then not classified. */
static int name_blank_out(char *question, const char *name)
{
	size_t n = strlen(name), stem = (size_t)(strrchr(name, '.') ? strrchr(name, '.') - name : (ptrdiff_t)n);

	for (size_t len = n;; len = stem) {
		for (char *p = question; len >= NAME_LEAST && *p; p++)
			if (!strncasecmp(p, name, len) && !byte_is_word(p[len]) &&
			    (p == question || !byte_is_word(p[-1]))) {
				memset(p, ' ', len);
				return 1;
			}
		if (len == stem)
			return 0;
	}
}

enum whole_question asks_for_whole(const struct conversation *conv, const char *question, size_t n, size_t *doc,
                                   int32_t *words)
{
	char text[QUESTION_MOST + 1];
	enum whole_question what = WHOLE_NOT;
	int named = 0;

	*doc = SIZE_MAX;
	*words = 0;
	if (n > QUESTION_MOST) /* a long question asks for details */
		return WHOLE_NOT;
	for (size_t i = 0; i < n; i++)
		text[i] = question[i] ? question[i] : ' ';
	text[n] = 0;
	for (size_t i = 0; i < conv->n_doc; i++)
		if (name_blank_out(text, conv->doc[i].name)) {
			*doc = i;
			named++;
		}
	if (named > 1)
		*doc = SIZE_MAX;
	for (size_t i = 0; !what && i < LEN(languages); i++)
		what = question_classify(&languages[i], text, n, words);
	return what;
}

/* ---- the beginning of a document ----
 *
 * "Who wrote it?" is answered by the first lines of a document. "What is it about?" is answered by its abstract;
 * without an abstract, by the first paragraph of prose, which may follow a licence, publisher's notes or a list of
 * chapters. */

enum {
	/* sizes in bytes */
	BEGINNING_MOST = 2000,
	FIRST_LINES = 300,
	PARAGRAPH_LEAST = 150,
	ABSTRACT_LEAST = 60,
	PARAGRAPH_MOST = 500,
	TITLE_MOST = 150,
	PROSE_WITHIN = 40000,
	ABSTRACT_WITHIN = 10000,
	HEADING_MOST = 80, /* maximum number of bytes of a heading; a longer line is not a heading */
};
/* Beginnings of headings. Headings in `abstracts` are those of sections that summarise the text. Headings in `beside`
 * are those of front matter, whose text is skipped. */
static const char *const abstracts[] = { "abstract", "summary",         "executive summary",    "overview",
	                                 "synopsis", "zusammenfassung", "r\xc3\xa9sum\xc3\xa9", "resumen",
	                                 "resumo",   "riassunto",       "samenvatting",         NULL };
static const char *const beside[] = {
	"contents",       "table of contents", "source",        "the author",  "about the author", "author's note",
	"authors",        "copyright",         "licen",         "acknowledg",  "bibliography",     "references",
	"illustrations",  "list of",           "publisher",     "imprint",     "colophon",         "transcriber",
	"notice",         "disclaimer",        "also by",       "other books", "inhalt",           "impressum",
	"table des mati", "sommaire",          "\xc3\xadndice", "indice",      "inhoud",           NULL,
};
/* A paragraph with one of these words is a publisher's note. */
static const char *const imprint[] = {
	"copyright",     "\xc2\xa9",   "all rights reserved", "isbn",        "gutenberg", "licence",    "license",
	"permission to", "this ebook", "electronic text",     "transcriber", "proofread", "printed in", NULL,
};

static int begins_with_any(const char *p, size_t n, const char *const *any)
{
	for (; *any; any++)
		if (n >= strlen(*any) && !strncasecmp(p, *any, strlen(*any)))
			return 1;
	return 0;
}

static int has_any(const char *p, size_t n, const char *const *any)
{
	for (size_t i = 0; i < n; i++)
		if (begins_with_any(p + i, n - i, any))
			return 1;
	return 0;
}

/* 1 if p[0 .. n) is prose of at least `least` bytes: mostly lower-case letters, with punctuation. A table, list,
 * address, motto or publisher's note is not prose. */
static int is_prose(const char *p, size_t n, size_t least)
{
	size_t small = 0, stops = 0, lines = 1, items = 0;

	if (n < least || strchr("#|-*+\"", *p) || !strncmp(p, "\xe2\x80\x9c", 3) || memchr(p, '@', n) ||
	    has_any(p, MIN(n, BEGINNING_MOST), imprint))
		return 0;
	for (size_t i = 0; i < n; i++) {
		small += (byte_is_lower(p[i])) || (unsigned char)p[i] & 0x80;
		stops += i + 1 < n && strchr(".!?:;,", p[i]) && p[i] && (unsigned char)p[i + 1] <= ' ';
		lines += p[i] == '\n';
		items += (!i || p[i - 1] == '\n') && byte_is_digit(p[i]);
	}
	return small * 10 >= n * 6 && (stops || (unsigned char)*p & 0x80) && items * 2 <= lines;
}

/* Find the next block of lines from byte `from` on. Blocks are separated by blank lines. Returns the byte at which the
 * block begins; n if there is none. *end receives the byte at which the block ends. */
static size_t block_at(const char *body, size_t from, size_t n, size_t *end)
{
	const char *blank;

	while (from < n && (unsigned char)body[from] <= ' ')
		from++;
	blank = memmem(body + from, n - from, "\n\n", 2);
	*end = blank ? (size_t)(blank - body) : n;
	return from;
}

/* Find the abstract, or without an abstract the first paragraph of prose. It is the bytes *begin to *end. *head
 * receives the byte at which its heading begins, or *begin if it has no heading. Returns 1 if found, else 0. */
static int find_prose(const struct document *d, size_t from, size_t *head, size_t *begin, size_t *end)
{
	const char *body = d->text.p + d->body;
	size_t n = d->n_body - from < PROSE_WITHIN ? d->n_body : from + PROSE_WITHIN, heading = SIZE_MAX, to;
	int found = 0, skip = 0, wanted = 0;

	for (size_t at = from; (at = block_at(body, at, n, &to)) < n; at = to) {
		const char *p = body + at, *line = memchr(p, '\n', to - at);
		size_t len = line ? (size_t)(line - p) : to - at, mark = 0;

		if (found && at - from > ABSTRACT_WITHIN)
			break;
		/* skip Markdown marks and section numbers at the beginning of the line */
		while (mark < len && strchr("#*_= 0123456789.", p[mark]))
			mark++;
		if (len <= HEADING_MOST && (len == to - at || begins_with_any(p + mark, len - mark, abstracts))) {
			skip = begins_with_any(p + mark, len - mark, beside);
			wanted = begins_with_any(p + mark, len - mark, abstracts);
			heading = at;
			at += len == to - at ? len : len + 1; /* skip the heading and its newline */
		}
		if (at < to && !skip && (wanted || !found) &&
		    is_prose(body + at, to - at, wanted ? ABSTRACT_LEAST : PARAGRAPH_LEAST)) {
			*head = heading == SIZE_MAX || at - heading > 2 * HEADING_MOST ? at : heading;
			*begin = at;
			*end = cut_end(body, at, to, PARAGRAPH_MOST);
			found = 1;
			if (wanted)
				break;
		}
	}
	return found;
}

/* Return the offset after the line "Author: ..." that the import of a document may write before its text. */
static size_t after_author(const char *body, size_t from, size_t n)
{
	static const char says[] = "Author: ";
	const char *end = n - from < sizeof says - 1 || memcmp(body + from, says, sizeof says - 1)
	                          ? NULL
	                          : memmem(body + from, n - from, "\n\n", 2);

	return end ? (size_t)(end + 2 - body) : from;
}

/* Find the title. It is the text after "Title: " or, if no line begins so, the first line; the second line is included
 * if the first one is short. Returns 1; 0 if there is no title. */
static int find_title(const char *body, size_t from, size_t n, size_t *begin, size_t *end)
{
	static const char says[] = "\nTitle: ";
	const char *at = memmem(body + from, n - from < BEGINNING_MOST ? n - from : BEGINNING_MOST, says,
	                        sizeof says - 1),
		   *line;

	if (n - from >= sizeof says - 2 && !memcmp(body + from, says + 1, sizeof says - 2))
		at = body + from - 1;
	*begin = at ? (size_t)(at - body) + sizeof says - 1 : from;
	line = memchr(body + *begin, '\n', n - *begin);
	*end = line ? (size_t)(line - body) : n;
	if (!at && line && *end + 1 < n) {
		const char *next = line + 1, *stop = memchr(next, '\n', n - *end - 1);
		size_t len = stop ? (size_t)(stop - next) : n - *end - 1;

		if (len && len <= HEADING_MOST && !memchr(next, ',', len) && !memchr(next, '@', len) &&
		    strncasecmp(next, "by ", 3) != 0)
			*end += len + 1;
	}
	return *end > *begin && *end - *begin <= TITLE_MOST && !strchr(".,;:", body[*end - 1]) &&
	       !is_prose(body + *begin, *end - *begin, PARAGRAPH_LEAST);
}

int document_beginning(const struct conversation *conv, size_t i, enum whole_question what, struct source *out)
{
	/* A line with this text ends the licence in a file of Project Gutenberg; the book begins after it. */
	static const char starts[] = "*** START OF TH";
	const struct document *d = &conv->doc[i];
	const char *body = d->text.p + d->body, *start;
	size_t first = 0, lines, from, to, head, begin, end;

	while (first < d->n_body && (unsigned char)body[first] <= ' ')
		first++;
	to = cut_end(body, first, d->n_body, BEGINNING_MOST);
	while (to > first && (unsigned char)body[to - 1] <= ' ')
		to--;
	if (first == to)
		return 0;
	*out = (struct source){
		.doc = i, .from = first, .to = to, .quote = first, .quote_end = cut_end(body, first, to, FIRST_LINES)
	};
	lines = after_author(body, first, d->n_body);
	if (!find_title(body, lines, d->n_body, &out->title, &out->title_end))
		out->title = out->title_end = 0;
	if (what == WHOLE_TITLE) {
		/* the title was found in a later line such as "Title: ...": quote that line */
		if (out->title > lines && out->title < to) {
			out->quote = out->title;
			out->quote_end = cut_end(body, out->title, to, FIRST_LINES);
		}
		out->title = out->title_end = 0;
		return 1;
	}
	from = first;
	start = memmem(body + first, to - first, starts, sizeof starts - 1);
	if (start && (start = memchr(start, '\n', (size_t)(body + d->n_body - start))))
		from = (size_t)(start - body);
	if (!find_prose(d, from, &head, &begin, &end))
		return 1;
	out->from = head;
	out->to = cut_end(body, out->from, d->n_body, BEGINNING_MOST);
	out->quote = begin;
	out->quote_end = MIN(end, out->to);
	return 1;
}
