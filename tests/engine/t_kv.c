/* tests/engine/t_kv.c - the interface of cache policies: parsing and printing their settings, their descriptions, and
 * the bytes that they read. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/policies/policy.h"

static struct engine *open_tiny(void)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	if (engine_open(&e,
	                &(struct engine_options){ .model_path = "tests/vectors/models/llama-block32.gguf",
	                                          .threads = 2 },
	                &err))
		test_skip("cannot open the tiny model: %s", err.msg);
	return e;
}

static struct timeline *open_kv(struct engine *e, const char *kv, int32_t ctx)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_MSG(!timeline_open(&tl, e, &(struct timeline_options){ .kv = kv, .ctx = ctx, .batch = 16 }, &err),
	          "%s: %s", kv, err.msg);
	return tl;
}

static void refused(const char *text, const char *why)
{
	struct err err = { 0 };

	CHECK_MSG(kv_policy_check(text, &err) < 0, "'%s' was taken", text);
	CHECK_INT(err.code, ERR_USAGE);
	CHECK_MSG(strstr(err.msg, why) != NULL, "'%s': no '%s' in '%s'", text, why, err.msg);
}

TEST(unknown_names_are_refused_with_those_there_are)
{
	refused("fulll", "unknown cache policy 'fulll'; there are");
	refused(":k=1", "unknown cache policy ''");
	refused("Full", "unknown cache policy");
	refused(" full", "unknown cache policy");
}

TEST(settings_are_checked)
{
	refused("full:k=1", "cache policy 'full' has no settings");
	refused("sift:kk=1", "cache policy 'sift' has no setting 'kk'; it has k, bits");
	refused("sift:k", "wants a value for 'k'");
	refused("sift:k=", "cannot take k=''");
	refused("sift:k=0", "cannot take k='0' (1 to 1000000000, or a share as 1/8)");
	refused("sift:k=1/0", "cannot take k='1/0'");
	refused("sift:k=2/1", "cannot take k='2/1'");
	refused("sift:k=1e99", "cannot take");
	refused("sift:k=nan", "cannot take");
	refused("sift:bits=3", "(2|4|8|16)");
	refused("sift:split=odd", "(need|even)");
	refused("cascade:n=9", "cannot take n='9' (1 to 8)");
	refused("cascade:size=64,n=2,zz=1", "has no setting 'zz'");
}

TEST(every_policy_is_in_the_help_with_its_settings)
{
	struct str help = { 0 };

	kv_policy_help(&help);
	for (int i = 0; policies[i]; i++) {
		char line[80];

		CHECK_MSG(policies[i]->help && *policies[i]->help, "%s has no help", policies[i]->name);
		snprintf(line, sizeof line, "  %-12s ", policies[i]->name);
		CHECK_MSG(strstr(help.p, line) != NULL, "'%s' is not in the help", policies[i]->name);
		for (const struct param *p = policies[i]->params; p->key; p++) {
			snprintf(line, sizeof line, "      %s=%s  ", p->key, p->preset);
			if (p->type == PARAM_REMOVED)
				continue;
			CHECK_MSG(strstr(help.p, line) != NULL, "%s: '%s' is not in the help", policies[i]->name, line);
		}
	}
	str_free(&help);
}

TEST(presets_are_values_that_can_be_given)
{
	for (int i = 0; policies[i]; i++)
		for (const struct param *p = policies[i]->params; p->key; p++) {
			struct err err = { 0 };
			char text[120];

			snprintf(text, sizeof text, "%s:%s=%s", policies[i]->name, p->key, p->preset);
			if (p->type == PARAM_REMOVED)
				refused(text, "any more; it has");
			else
				CHECK_MSG(!kv_policy_check(text, &err), "%s: %s", text, err.msg);
		}
}

static void current_is(const char *text, const char *now, const char *removed)
{
	struct str is = { 0 }, gone = { 0 };

	kv_policy_current(text, &is, &gone);
	CHECK_STR(is.p, now);
	CHECK_STR(str_text(&gone), removed);
	str_free(&is);
	str_free(&gone);
}

TEST(settings_of_older_versions_are_left_out)
{
	current_is("sift:k=1/3,bits=2,every=1,split=need,dense=0,sample=0,pool=7",
	           "sift:k=1/3,bits=2,split=need,sample=0", "");
	current_is("sift:every=3,k=9,pool=15", "sift:k=9", "every=3, pool=15");
	current_is("snapkv:dense=2,window=1", "snapkv:window=1", "dense=2");
	current_is("h2o+:dense=2", "h2o+:dense=2", "");
	current_is("sift:every=13", "sift", "every=13");
	current_is("auto:every=2", "auto", "every=2");
	current_is("refresh:pool=15", "refresh:pool=15", "");
	current_is("cascade:gamma=0.5,n=4", "cascade:n=4", "gamma=0.5");
	current_is("auto:n=3,sinks=4,f=2,heads=kv,reduce=max,score=attn", "auto:n=3", "");
	current_is("refresh:k=9,qc=0,stride=7", "refresh:k=9", "qc=0, stride=7");
	current_is("sift:evry=3,k", "sift:evry=3,k", "");
	current_is("sifd:every=3", "sifd:every=3", "");
	current_is("", "", "");
	refused("refresh:qc=0", "cannot take qc='0' (1 to");
	refused("sift:every=2", "cache policy 'sift' has no setting 'every' any more; it has k, bits, split");
}

static void identity_is(const char *text, const char *wanted)
{
	struct str is = { 0 };
	struct policy par;
	struct err err = { 0 };

	CHECK_MSG(!policy_parse(&par, text, &err), "%s", err.msg);
	policy_identity(&par, &is);
	CHECK_STR(is.p, wanted);
	str_free(&is);
}

/* These identities must not change, because they are used to find snapshots of all earlier versions. */
TEST(snapshots_of_older_versions_are_found)
{
	identity_is("sift", "sift:k=512,bits=2,every=1,split=0,dense=0,sample=0,pool=7");
	identity_is("snapkv", "snapkv:k=512,window=32,pool=7,kind=0,dense=0");
	identity_is("streaming++", "streaming++:size=512,stride=10,sinks=4,positions=0,dense=0");
	identity_is(
		"refresh:pool=7",
		"refresh:k=512,qc=5,s=0x1.b333333333333p-1,stride=10,pool=7,group=0,scan=0,dense=0,sinks=0,recent=0,"
		"update=0,query=0");
	identity_is("cascade",
	            "cascade:size=1024,n=2,sinks=4,f=2,heads=0,reduce=0,select=1,score=0,gamma=0x0p+0,stride=512");
	identity_is("recycled", "recycled:k=512,stride=10,pool=7,group=0,scan=1,dense=0,sinks=0,recent=0,update=0");
	identity_is("auto:pool=7",
	            "auto:prefix=0,k=256,bits=2,every=1,split=0,sample=128,qc=5,s=0x1.b333333333333p-1,pool=7,group=0,"
	            "scan=0,size=0,n=2,sinks=4,f=2,heads=0,reduce=0,score=0");
}

static void equal_settings(const char *text, const char *wanted)
{
	struct str is = { 0 }, want = { 0 };

	kv_policy_whole(text, &is);
	kv_policy_whole(wanted, &want);
	CHECK_STR(is.p, want.p);
	str_free(&is);
	str_free(&want);
}

TEST(published_stands_for_the_settings_of_the_authors)
{
	equal_settings("cascade:published", "cascade:n=4,heads=layer,reduce=mean,stride=1");
	equal_settings("cascade:published,n=2,size=64", "cascade:n=2,heads=layer,reduce=mean,stride=1,size=64");
	equal_settings("refresh:published", "refresh:k=1/8,qc=5,s=0.85,pool=7,scan=kv");
	equal_settings("recycled:published", "recycled:k=1/8,stride=10,pool=7,scan=kv");
	equal_settings("predict:published,k=64", "predict:k=64");
	equal_settings("quest:published", "quest:bound=raw");
	equal_settings("sink:published", "sink:stride=1");
	refused("cascade:publishe", "cache policy 'cascade' has no setting 'publishe'");
	refused("cascade:published=1", "cache policy 'cascade' has no setting 'published'; it has size");
	refused("sift:published", "cache policy 'sift' has no setting 'published'");
	refused("full:published", "cache policy 'full' has no settings");
}

static void whole_again(const char *text)
{
	struct str whole = { 0 }, again = { 0 }, is = { 0 }, was = { 0 };
	struct policy par, back;
	struct err err = { 0 };
	size_t keys = 0, given = 0;

	kv_policy_whole(text, &whole);
	CHECK_MSG(!policy_parse(&par, text, &err) && !policy_parse(&back, whole.p, &err), "%s: %s", text, err.msg);
	policy_identity(&par, &was);
	policy_identity(&back, &is);
	CHECK_STR(is.p, was.p);
	kv_policy_whole(whole.p, &again);
	CHECK_STR(again.p, whole.p);
	for (const struct param *p = par.def->params; p->key; p++)
		keys += p->type != PARAM_REMOVED;
	for (size_t i = 0; i < whole.n; i++)
		given += whole.p[i] == '=';
	CHECK_MSG(given == keys, "%zu of %zu settings in '%s'", given, keys, whole.p);
	str_free(&whole);
	str_free(&again);
	str_free(&is);
	str_free(&was);
}

/* The stored text of a policy names all settings, so that it does not depend on later defaults. */
TEST(the_whole_text_means_the_same_and_leaves_nothing_out)
{
	/* clang-format off */
	static const char *const exact[] = {
		"sift:k=1/3", "sift:k=2/3", "sift:k=0.3/1", "quest:k=7/9", "h2o:k=1/1.7", "sift:k=1000000000", "auto:s=-0.123456789012345",
		"auto:s=0.1,k=5/7", "refresh:s=1e-9", "refresh:s=0.333333333333333314",
		/* The longest possible text. */
		"auto:prefix=refresh,k=0.123456789012345/0.99,bits=16,split=even,sample=4096,qc=1000,s=-0.123456789012345,size=16777216,n=8",
		"cascade:size=16777216,n=8,sinks=65536,f=4,heads=layer,reduce=median,select=0,score=surprise,stride=65536",
	};
	/* clang-format on */

	for (int i = 0; policies[i]; i++)
		whole_again(policies[i]->name);
	whole_again("");
	for (size_t i = 0; i < LEN(exact); i++)
		whole_again(exact[i]);
	for (int i = 0; i < 20000; i++) {
		char text[80];

		snprintf(text, sizeof text, "sift:k=%u/%u", 1 + (unsigned)(test_rand() % 1000),
		         1000 + (unsigned)(test_rand() % 100000));
		whole_again(text);
	}
}

TEST(those_without_an_end_say_so)
{
	CHECK(kv_policy_endless("auto"));
	CHECK(kv_policy_endless("cascade:size=64"));
	CHECK(kv_policy_endless("sink"));
	CHECK(!kv_policy_endless("full"));
	CHECK(!kv_policy_endless("sift:k=1/8"));
	CHECK(!kv_policy_endless("nonsense"));
}

TEST(what_is_read_follows_the_policy)
{
	struct engine *e = open_tiny();
	struct timeline_stats st;
	struct timeline *tl = open_kv(e, "full", 200);
	uint64_t row, six;

	timeline_stats(tl, &st);
	row = st.kv_bytes_per_token;
	CHECK_INT(timeline_read_bytes(tl, 100, 1), 100 * row);
	CHECK_INT(timeline_read_bytes(tl, 100, 0), 100 * row);
	timeline_close(tl);

	/* The whole key sketch is read, which has few bits per value, and then 32 entries. */
	tl = open_kv(e, "sift:k=32", 200);
	CHECK(timeline_read_bytes(tl, 160, 1) > 32 * row);
	CHECK(timeline_read_bytes(tl, 160, 1) < 120 * row);
	CHECK_INT(timeline_read_bytes(tl, 160, 0), 160 * row);
	CHECK_MSG(timeline_read_bytes(tl, 20, 1) <= 21 * row, "more is read than there is");
	timeline_close(tl);

	/* Even with a small k, six pages are read: the first, the last four, and one selected page. */
	tl = open_kv(e, "quest:k=96", 200);
	six = timeline_read_bytes(tl, 180, 1);
	CHECK(six > 96 * row && six < 180 * row);
	timeline_close(tl);
	tl = open_kv(e, "quest:k=16", 200);
	CHECK_INT(timeline_read_bytes(tl, 180, 1), six);
	timeline_close(tl);

	tl = open_kv(e, "sink:size=64,sinks=4,stride=16", 200);
	CHECK_INT(timeline_read_bytes(tl, 40, 1), 40 * row);
	CHECK_INT(timeline_read_bytes(tl, 1000000, 1), timeline_read_bytes(tl, 5000, 1));
	CHECK(timeline_read_bytes(tl, 5000, 1) >= 68 * row);
	CHECK(timeline_read_bytes(tl, 5000, 1) <= (68 + 16) * row);
	timeline_close(tl);
	engine_close(e);
}

/* Generate 40 tokens after a short prompt. Return the seconds that were spent in the policy. */
static double measured(struct timeline *tl, int32_t *id)
{
	struct sampling greedy = sampling_default;
	struct timeline_stats st;
	struct err err = { 0 };

	greedy.temperature = 0;
	CHECK_INT(timeline_sync(tl, (int32_t[]){ 5, 6, 7, 8, 9, 10 }, 6, NULL, NULL, &err), 0);
	for (int i = 0; i < 40; i++) {
		struct step_out out;
		CHECK_MSG(timeline_step(tl, &greedy, &out, &err) >= 0, "%s", err.msg);
		id[i] = out.id;
	}
	timeline_stats(tl, &st);
	CHECK(st.policy_seconds <= st.decode_seconds);
	return st.policy_seconds;
}

TEST(measuring_changes_nothing)
{
	struct engine *e = open_tiny();
	int32_t plain[40], timed[40];
	struct timeline *tl = open_kv(e, "sift:k=8", 100);

	CHECK(measured(tl, plain) == 0); /* timeline_measure() was not called */
	timeline_close(tl);
	tl = open_kv(e, "sift:k=8", 100);
	timeline_measure(tl, 1);
	CHECK(measured(tl, timed) > 0);
	CHECK(!memcmp(plain, timed, sizeof plain));
	timeline_close(tl);
	engine_close(e);
}
