/* tests/app/t_unsupported.c - numbers and names of an answer that the model was not given
 * (app/retrieval/unsupported.c). */
#include <string.h>

#include "app/chat/chat_private.h"
#include "app/retrieval/retrieval_private.h"
#include "tests/lib/scene.h"

/* Check the list for an answer; entries are followed by a newline. */
static void check_list(struct scene *s, const char *answer, const char *want)
{
	struct str out = { 0 };

	unsupported_find(&s->c.conv, answer, strlen(answer), &out);
	CHECK_MSG(!strcmp(str_text(&out), want), "%s: \"%s\"", answer, str_text(&out));
	str_free(&out);
}

static const char text[] =
	"The light at Cape Morrow was built in 1871 by German masons for 12,500 crowns. Its lamp, of 2.5 tons, "
	"is lit at 5:30; seven men live there. The first keeper was called Anders.\n";

static void open_light(struct scene *s, const char *words)
{
	char path[128], line[160];
	FILE *f;

	open_scene(s, words);
	snprintf(path, sizeof path, "%s/light.txt", home);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
	snprintf(line, sizeof line, "/read %s", path);
	do_line(s, line);
	CHECK_INT(s->c.conv.n_doc, 1);
	CHECK_INT(s->c.conv.doc[0].whole, 1);
}

TEST(numbers_and_names_are_looked_up)
{
	struct str nul = { 0 };
	struct scene s;

	open_light(&s, "-n 4 --private --kv full -c 512");
	check_list(&s, "", "");
	check_list(&s, "It was built in 1871 by the Germans, and the keeper was Anders.", "");
	check_list(&s, "It was built in 1872 by the French, and the keeper was John Anders Smith.",
	           "1872\nFrench\nJohn\nSmith\n");
	check_list(&s, "The keeper was John Smith, and his son was John Smith.", "John Smith\n");
	/* Different spellings of a number count as the same number. */
	check_list(&s, "It cost 12500 or 12.500 crowns, has 7 men, and is lit at 5:30 on the 7th.", "");
	check_list(&s, "The lamp has 2,5 tons.", "");
	check_list(&s, "The lamp has 25 tons and is lit at 530 by eight men for 12,501 crowns.", "25\n530\n12,501\n");
	unsupported_find(&s.c.conv,
	                 "at 12\0"
	                 "500 crowns",
	                 17, &nul);
	CHECK_STR(str_text(&nul), "12\n500\n");
	/* Capitals at the beginning of a sentence, a line or a quotation make no names; list labels are no numbers. */
	check_list(&s, "Yes. Perhaps the men know. The text says: \"Lamps are lit.\"\n- Masons did it.", "");
	check_list(&s, "1. The masons [2]\n2. the men\n 3) and the lamp [14]", "");
	check_list(&s, "the 14 men", "14\n");
	/* In languages other than English only numbers are checked: for example, German nouns begin with capitals. */
	check_list(&s, "Der Turm wurde von Maurern im Jahr 1872 gebaut.", "1872\n");
	check_list(&s,
	           "\xe5\xa1\x94\xe3\x81\xaf"
	           "1872\xe5\xb9\xb4",
	           "1872\n");
	str_free(&nul);
	close_scene(&s);
}

/* The check takes time in proportion to both texts: this test would otherwise not end. */
TEST(a_long_answer_beside_a_long_text)
{
	struct scene s;
	struct str answer = { 0 }, out = { 0 };
	struct message *m;

	open_light(&s, "-n 4 --private --kv full -c 512");
	m = conversation_message(&s.c.conv, ROLE_USER, "When?", 5, NULL, 0);
	for (int i = 0; i < 200000; i++)
		str_addf(&m->context, "Name%d ", i);
	for (int i = 0; i < 20000; i++)
		str_addf(&answer, "and %d, the Name%d; ", 5000000 + i, i);
	unsupported_find(&s.c.conv, answer.p, answer.n, &out);
	CHECK(!strncmp(str_text(&out), "5000000\n5000001\n", 16));
	str_free(&answer);
	str_free(&out);
	close_scene(&s);
}

TEST(what_the_user_said_and_what_was_sent_is_given)
{
	struct scene s;
	struct message *m;

	open_light(&s, "-n 4 --private --kv full -c 512");
	check_list(&s, "the keeper was called Ebba until 1903", "Ebba\n1903\n");
	conversation_message(&s.c.conv, ROLE_USER, "Was it Ebba?", 12, NULL, 0);
	check_list(&s, "the keeper was called Ebba until 1903", "1903\n");
	m = conversation_message(&s.c.conv, ROLE_USER, "When?", 5, NULL, 0);
	str_adds(&m->context, "Ebba kept the light until 1903.");
	check_list(&s, "the keeper was called Ebba until 1903", "");
	/* A number in an earlier answer counts as not given. */
	conversation_message(&s.c.conv, ROLE_ASSISTANT, "In 1904.", 8, NULL, 0);
	check_list(&s, "it was in 1904", "1904\n");
	/* The name of the document is known; a document that is searched counts only by what was sent of it. */
	check_list(&s, "the file Light has it", "");
	s.c.conv.doc[0].whole = 0;
	check_list(&s, "the keeper was Anders", "Anders\n");
	close_scene(&s);
}

/* Check what marks_find() lists for an answer whose three sources are paragraphs of light.txt. The third was not
 * sent. */
static void check_marks(struct scene *s, const char *answer, const char *want)
{
	char the[] = "The", its[] = "Its", name[] = "light.txt";
	struct answer_source at[] = {
		{ .doc = name, .to = 78, .quote_end = 3, .text = the, .found = 1, .sent = 1 },
		{ .doc = name,
		  .from = 78,
		  .to = 139,
		  .quote = 79,
		  .quote_end = 82,
		  .text = its,
		  .found = 1,
		  .sent = 1 },
		{ .doc = name, .from = 139, .to = 175, .quote = 140, .quote_end = 143, .text = the, .found = 1 },
	};
	struct answer_sources list = { at, LEN(at) };
	struct str out = { 0 };

	marks_find(&s->c.conv, &list, answer, strlen(answer), &out);
	CHECK_MSG(!strcmp(str_text(&out), want), "%s: \"%s\"", answer, str_text(&out));
	str_free(&out);
}

TEST(marks_are_compared_with_their_passages)
{
	struct scene s;
	struct message *m;

	open_light(&s, "-n 4 --private --kv full -c 512");
	m = conversation_message(&s.c.conv, ROLE_USER, "What is known of the light of Ebba?", 35, NULL, 0);
	check_marks(&s, "It was built in 1871 [2][7].", ""); /* marks were not asked for */
	str_adds(&m->context,
	         "[1] From light.txt:\nThe light\n\nPut behind each sentence of the answer the number of the "
	         "passage that says it, in brackets, like [1].\n\n");
	check_marks(&s, "It was built in 1871 by the Germans [1]. The lamp has 2.5 tons [2]. It is that of Ebba [1].",
	            "");
	check_marks(&s, "It was built in 1871. [1] The lamp has 2.5 tons. [2]\n", "");
	check_marks(&s, "It was built in 1871 by the Germans, and the lamp has 2.5 tons [1][2].", "");
	check_marks(&s, "It was built in 1871, and the lamp has 2.5 tons [1, 2].", "");
	check_marks(&s, "It was built in 1871 [1] and the lamp has 2.5 tons [2].", "");
	check_marks(&s, "It was built in 1871 by the Germans [2]. The lamp has 2.5 tons [1].",
	            "1871 [2]\nGermans [2]\n2.5 [1]\n");
	/* marks of passages that were not sent; other brackets are no marks */
	check_marks(&s, "It was built in 1871 [1][4]. Its lamp is lit [3][0] at 5:30 [2].", "[4]\n[3]\n[0]\n");
	check_marks(&s, "The array a[i] has [1 element], [1871] and [.", "");
	/* what no text has is listed once, by unsupported_find() */
	check_marks(&s, "It was built in 1872 [1].", "");
	check_list(&s, "It was built in 1872 [1] by 2 men [1871].", "1872\n2\n");
	close_scene(&s);
}

TEST(json_and_the_line_below_the_answer_list_them)
{
	struct scene s;
	struct str json = { 0 }, line = { 0 };

	open_light(&s, "-n 4 --private --kv full -c 512 --temp 0");
	do_line(&s, "Who built the light?");
	conversation_json(&s.c.conv, &s.c.conv.last, "", &json);
	CHECK_MSG(strstr(json.p, "\"unsupported\":["), "%s", json.p);
	str_adds(turn_hook_find(&s.c.conv, "unsupported"), "1872\nJohn Smith\n[7]\n1871 [2]\n");
	unsupported_line(&s.c.conv, &line);
	CHECK_MSG(strstr(str_text(&line), "not in the sources: ") &&
	                  strstr(str_text(&line), "1872, John Smith, [7], 1871 [2]"),
	          "%s", str_text(&line));
	str_clear(&line);
	unsupported_words(&s.c.conv, &line);
	CHECK_MSG(strstr(str_text(&line), "1872\nJohn Smith\n[7]\n1871\n"), "%s", str_text(&line));
	str_clear(&line);
	/* Without documents there is nothing to compare with. */
	do_line(&s, "/drop 1");
	CHECK_INT(s.c.conv.n_doc, 0);
	do_line(&s, "Who was it?");
	str_clear(&line);
	unsupported_line(&s.c.conv, &line);
	CHECK_STR(str_text(&line), "");
	str_free(&json);
	str_free(&line);
	close_scene(&s);
}
