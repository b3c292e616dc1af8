/* app/conversation/answer_record.c - the record of how an answer was made. It is stored with the answer. `weir verify`
 * recomputes the answer from it, and JSON exports contain it. */
#include "app/conversation/conversation.h"
#include "engine/base/json.h"

#include <stdlib.h>
#include <string.h>

void answer_record_json(const struct conversation *conv, const struct turn *turn, const char *sha256, struct str *out)
{
	struct timeline_stats st;
	struct str random = { 0 };

	timeline_stats(conv->tl, &st);
	for (size_t i = 0; i < LEN(turn->random); i++)
		str_addf(&random, "%016llx", (unsigned long long)turn->random[i]);
	json_open(out, "made", '{');
	json_string(out, "weir", WEIR_VERSION);
	json_string(out, "device", conv->info->device);
	json_string(out, "model", conv->info->name);
	json_string(out, "sha256", sha256);
	json_string(out, "kv", st.kv);
	json_string(out, "kv_type", st.kv_type);
	json_int(out, "ctx", st.ctx);
	sampling_json(&conv->sampled, "sampling", out);
	json_string(out, "random", random.p);
	json_int(out, "limit", turn->stop == STOP_CANCEL ? turn->answer_tokens : conv->o->predict);
	json_close(out, '}');
	str_free(&random);
}

int answer_record_read(const char *stats, struct answer_record *out)
{
	struct jv made = jv_get(jv_parse(stats, strlen(stats)), "made");
	struct str random = { 0 };
	double ctx = 0, limit = -1;
	int rc = -1;

	*out = (struct answer_record){ 0 };
	jv_text(jv_get(made, "sha256"), &out->sha256);
	jv_text(jv_get(made, "device"), &out->device);
	jv_number(jv_get(made, "limit"), &limit);
	jv_number(jv_get(made, "ctx"), &ctx);
	out->ctx = (int32_t)MIN(MAX(ctx, 0), INT32_MAX);
	out->limit = (int32_t)MIN(MAX(limit, -1), INT32_MAX);
	out->sampling_set = sampling_from_json(jv_get(made, "sampling"), &out->sampling);
	if (!jv_text(jv_get(made, "random"), &random) && random.n == 16 * LEN(out->random)) {
		rc = 0;
		for (size_t i = 0; i < LEN(out->random); i++) {
			char digits[17] = "", *end;

			memcpy(digits, random.p + 16 * i, 16);
			out->random[i] = strtoull(digits, &end, 16);
			rc |= *end ? -1 : 0;
		}
	}
	str_free(&random);
	return rc;
}

void answer_record_free(struct answer_record *r)
{
	str_free(&r->sha256);
	str_free(&r->device);
}
