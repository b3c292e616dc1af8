/* engine/template/chat_builtin.c - built-in chat templates, for model files without a usable template.
 *
 * They are shorter than the original templates: text only, no tools, and a default system message only where the format
 * needs one. Only smollm2 is identical to the template in the default model's file. So sessions of this model store the
 * template's name and not a hash. */
#include "engine/template/chat.h"

#include <string.h>

/* Parts of many templates, as Jinja text. SAY writes the message m between two texts. REPLY writes the text that begins
 * an answer, and BOS the BOS token. \\n is \n for Jinja, which is a newline. */
#define EACH                       "{% for m in messages %}"
#define END_EACH                   "{% endfor %}"
#define SAY(before, after)         "{{ '" before "' + m.content + '" after "' }}"
#define SAY_TRIMMED(before, after) "{{ '" before "' + m.content.strip() + '" after "' }}"
#define REPLY(head)                "{% if add_generation_prompt %}{{ '" head "' }}{% endif %}"
#define BY_ROLE(system, user, assistant)                                                                               \
	EACH "{% if m.role == 'system' %}" system "{% elif m.role == 'user' %}" user "{% else %}" assistant            \
	     "{% endif %}" END_EACH
#define BOS "{{ bos_token }}"

/* Parts of templates that treat a system message at the start separately, and in which questions and answers must
 * alternate. */
#define FIRST_SYSTEM                                                                                                   \
	"{% set first = messages[0].content if messages[0].role == 'system' %}"                                        \
	"{% set rest = messages[1:] if messages[0].role == 'system' else messages %}"
#define EACH_OF_REST "{% for m in rest %}"
#define IN_TURNS                                                                                                       \
	"{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"                                                        \
	"{{ raise_exception('user and assistant must take turns, the user first') }}{% endif %}"
#define NO_LATER_SYSTEM                                                                                                \
	"{% if m.role == 'system' %}{{ raise_exception('a system message can stand at the start only') }}{% endif %}"

#define CHATML_TURNS EACH "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}" END_EACH
#define CHATML       CHATML_TURNS REPLY("<|im_start|>assistant\\n")
#define CHATML_DEFAULT(system)                                                                                         \
	"{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\n" system "<|im_end|>\\n' }}{% endif %}" CHATML

/* Parts of templates that show the reasoning in answers to the last question, and remove the reasoning in earlier
 * answers. */
#define LAST_QUESTION                                                                                                  \
	"{% set ns = namespace(last=messages|length - 1) %}"                                                           \
	"{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
#define SPLIT_THOUGHT                                                                                                  \
	"{% set thought = '' %}{% set said = m.content %}{% if '</think>' in m.content %}"                             \
	"{% set thought = m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"          \
	"{% set said = m.content.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
#define NO_THOUGHT   "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}"

#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\\n\\n"
#define LLAMA3_TURNS                                                                                                   \
	"{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content.strip() + '<|eot_id|>' }}"
#define LLAMA3_DATED(day)                                                                                              \
	BOS FIRST_SYSTEM "{{ '" HEADER(                                                                                \
		"system") "Cutting Knowledge Date: December 2023\\nToday Date: ' + " day                               \
			  " + '\\n\\n' + (first or '').strip() + '<|eot_id|>' }}" EACH_OF_REST LLAMA3_TURNS END_EACH   \
			  REPLY(HEADER("assistant"))

#define MISTRAL_MERGED(before, between, after, answer)                                                                 \
	BOS FIRST_SYSTEM EACH_OF_REST IN_TURNS NO_LATER_SYSTEM                                                         \
		"{% if m.role == 'user' %}"                                                                            \
		"{% set before = first + '\\n\\n' if first is not none and first is defined and " between              \
		" else '' %}"                                                                                          \
		"{{ '" before "' + before + m.content + '" after "' }}{% else %}" answer "{% endif %}" END_EACH
#define MISTRAL_SYSTEM(turns)                                                                                               \
	BOS EACH turns                                                                                                      \
		"{% if m.role == 'system' %}" SAY("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]") "{% elif m.role == 'user' %}" SAY( \
			"[INST]", "[/INST]") "{% else %}{{ m.content + eos_token }}{% endif %}" END_EACH

#define GEMMA_TURN "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + "
#define DEEPSEEK_TURNS(answer)                                                                                         \
	"{% set ns = namespace(system='') %}" EACH                                                                     \
	"{% if m.role == 'system' %}{% set ns.system = m.content %}{% endif %}" END_EACH                               \
	"{{ bos_token + ns.system }}" EACH                                                                             \
	"{% if m.role == 'user' %}" SAY("<｜User｜>", "") "{% elif m.role == 'assistant' %}"                           \
							  "{{ '<｜Assistant｜>' + " answer                             \
							  " + '<｜end▁of▁sentence｜>' }}{% endif %}" END_EACH
#define PHI3_TURNS                                                                                                     \
	BY_ROLE(SAY("<|system|>\\n", "<|end|>\\n"), SAY("<|user|>\\n", "<|end|>\\n"),                                  \
	        SAY("<|assistant|>\\n", "<|end|>\\n"))
#define ELSE_EOS(head) "{% if add_generation_prompt %}{{ '" head "' }}{% else %}{{ eos_token }}{% endif %}"
#define COHERE(role)   "<|START_OF_TURN_TOKEN|><|" role "_TOKEN|>"
#define END_COHERE     "<|END_OF_TURN_TOKEN|>"

/* clang-format off */
static const struct { const char *name, *text; } builtin[] = {
	/* ---- ChatML and its descendants ---- */
	{ "chatml", CHATML },
	{ "smollm2",
	  "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
	  "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n'"
	  " + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}" },
	{ "qwen1.5", CHATML_DEFAULT("You are a helpful assistant.") },
	{ "qwen2.5", CHATML_DEFAULT("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.") },
	{ "qwen3", LAST_QUESTION EACH "{% if m.role != 'assistant' %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% else %}"
	  SPLIT_THOUGHT "{{ '<|im_start|>assistant\\n' }}{% if loop.index0 > ns.last and (thought or loop.last) %}"
	  "{{ '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + said.lstrip('\\n') }}{% else %}{{ said }}{% endif %}{{ '<|im_end|>\\n' }}"
	  "{% endif %}" END_EACH "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}" NO_THOUGHT "{% endif %}{% endif %}" },
	{ "qwen3.5", "{% if not messages | selectattr('role', 'eq', 'user') | list %}{{ raise_exception('there is no question') }}{% endif %}" LAST_QUESTION EACH "{% set text = m.content.strip() %}{% if m.role == 'system' and not loop.first %}"
	  "{{ raise_exception('a system message can stand at the start only') }}{% elif m.role != 'assistant' %}"
	  "{{ '<|im_start|>' + m.role + '\\n' + text + '<|im_end|>\\n' }}{% else %}"
	  "{% set thought = '' %}{% set said = text %}{% if '</think>' in text %}"
	  "{% set thought = text.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
	  "{% set said = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ '<|im_start|>assistant\\n' }}{% if loop.index0 > ns.last %}"
	  "{{ '<think>\\n' + thought.strip() + '\\n</think>\\n\\n' }}{% endif %}{{ said + '<|im_end|>\\n' }}{% endif %}" END_EACH
	  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}" NO_THOUGHT "{% else %}{{ '<think>\\n' }}{% endif %}{% endif %}" },
	{ "qwq", EACH "{% if m.role == 'assistant' and not loop.last %}{{ '<|im_start|>assistant\\n' + m.content.split('</think>')[-1].lstrip('\\n') + "
	  "'<|im_end|>\\n' }}{% else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}" END_EACH
	  REPLY("<|im_start|>assistant\\n<think>\\n") },
	{ "hermes", BOS CHATML },
	{ "smollm3", FIRST_SYSTEM "{% set system = first or '' %}{% set off = '/no_think' in system or (enable_thinking is defined and not enable_thinking) %}"
	  "{% set system = system.replace('/no_think', '').replace('/think', '').rstrip() %}"
	  "{{ '<|im_start|>system\\n## Metadata\\n\\nKnowledge Cutoff Date: June 2025\\nReasoning Mode: ' + ('/no_think' if off else '/think') + "
	  "'\\n\\n## Custom Instructions\\n\\n' }}{% if system %}{{ system + '\\n\\n' }}{% endif %}{{ '<|im_end|>\\n' }}"
	  "{% set head = '<|im_start|>assistant\\n' + ('<think>\\n\\n</think>\\n' if off else '') %}"
	  EACH "{% if m.role == 'user' %}" SAY("<|im_start|>user\\n", "<|im_end|>\\n") "{% elif m.role == 'assistant' %}"
	  "{{ head + m.content.lstrip('\\n') + '<|im_end|>\\n' }}{% endif %}" END_EACH "{% if add_generation_prompt %}{{ head }}{% endif %}" },
	{ "phi4", EACH "{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}" END_EACH REPLY("<|im_start|>assistant<|im_sep|>") },

	/* ---- Llama ---- */
	{ "llama2", FIRST_SYSTEM EACH_OF_REST IN_TURNS "{% set text = m.content %}"
	  "{% if loop.first and first is defined %}{% set text = '<<SYS>>\\n' + first + '\\n<</SYS>>\\n\\n' + m.content %}{% endif %}"
	  "{% if m.role == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}{% elif m.role == 'assistant' %}"
	  "{{ ' ' + text.strip() + ' ' + eos_token }}{% endif %}" END_EACH },
	{ "llama3", BOS EACH LLAMA3_TURNS END_EACH REPLY(HEADER("assistant")) },
	{ "llama3.1", LLAMA3_DATED("'26 Jul 2024'") },
	{ "llama3.2", LLAMA3_DATED("strftime_now('%d %b %Y')") },

	/* ---- Mistral ---- */
	{ "mistral", BOS EACH IN_TURNS NO_LATER_SYSTEM "{% if m.role == 'user' %}" SAY("[INST] ", " [/INST]") "{% else %}{{ m.content + eos_token }}{% endif %}" END_EACH },
	{ "mistral-v1", MISTRAL_MERGED(" [INST] ", "loop.first", " [/INST]", "{{ ' ' + m.content + eos_token }}") },
	{ "mistral-v3", MISTRAL_MERGED("[INST] ", "loop.last", "[/INST]", "{{ ' ' + m.content.strip() + eos_token }}") },
	{ "mistral-tekken", MISTRAL_MERGED("[INST]", "loop.last", "[/INST]", "{{ m.content + eos_token }}") },
	{ "mistral-v7", BOS BY_ROLE(SAY("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"), SAY("[INST] ", "[/INST]"), "{{ ' ' + m.content + eos_token }}") },
	{ "mistral-small3", BOS FIRST_SYSTEM "{% if first is defined %}{{ '[SYSTEM_PROMPT]' + first + '[/SYSTEM_PROMPT]' }}{% endif %}"
	  EACH_OF_REST IN_TURNS "{% if m.role == 'user' %}" SAY("[INST]", "[/INST]") "{% elif m.role == 'system' %}"
	  SAY("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]") "{% else %}{{ m.content + eos_token }}{% endif %}" END_EACH },
	{ "devstral", MISTRAL_SYSTEM("") },
	{ "ministral3", "{% set ns = namespace(turn=0) %}" MISTRAL_SYSTEM("{% if m.role == 'system' and not loop.first %}"
	  "{{ raise_exception('a system message can stand at the start only') }}{% elif m.role != 'system' %}"
	  "{% if (m.role == 'user') != (ns.turn % 2 == 0) %}{{ raise_exception('user and assistant must take turns, the user first') }}{% endif %}"
	  "{% set ns.turn = ns.turn + 1 %}{% if not m.content and m.role == 'assistant' %}{{ raise_exception('an answer cannot be empty') }}{% endif %}{% endif %}") },

	/* ---- Gemma ---- */
	{ "gemma", BOS "{% if messages[0].role == 'system' %}{{ raise_exception('there is no place for a system message') }}{% endif %}"
	  EACH IN_TURNS GEMMA_TURN "m.content.strip() + '<end_of_turn>\\n' }}" END_EACH REPLY("<start_of_turn>model\\n") },
	{ "gemma3", BOS FIRST_SYSTEM EACH_OF_REST IN_TURNS GEMMA_TURN
	  "(first + '\\n\\n' if loop.first and first is defined else '') + m.content.strip() + '<end_of_turn>\\n' }}" END_EACH REPLY("<start_of_turn>model\\n") },
	{ "gemma4", BOS EACH "{% set text = m.content %}{% if m.role == 'assistant' %}{% set ns = namespace(text='') %}"
	  "{% for part in m.content.split('<channel|>') %}{% set ns.text = ns.text + part.split('<|channel>')[0] %}{% endfor %}{% set text = ns.text %}{% endif %}"
	  "{% if not (m.role == 'assistant' and loop.previtem is defined and loop.previtem.role == 'assistant') %}"
	  "{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}{% endif %}"
	  "{{ text.strip() + '<turn|>\\n' }}" END_EACH REPLY("<|turn>model\\n<|channel>thought\\n<channel|>") },

	/* ---- Phi, Zephyr, Vicuna, Alpaca ---- */
	{ "phi3", PHI3_TURNS ELSE_EOS("<|assistant|>\\n") },
	{ "phi3.5", EACH "{% if m.content or m.role != 'system' %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endif %}" END_EACH
	  ELSE_EOS("<|assistant|>\\n") },
	{ "phi4-mini", EACH "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}" END_EACH ELSE_EOS("<|assistant|>") },
	{ "zephyr", EACH "{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}" END_EACH REPLY("<|assistant|>\\n") },
	{ "vicuna", BY_ROLE(SAY("", "\\n\\n"), SAY("USER: ", "\\n"), SAY("ASSISTANT: ", "</s>\\n")) REPLY("ASSISTANT:") },
	{ "alpaca", BY_ROLE(SAY("", "\\n\\n"), SAY("### Instruction:\\n", "\\n\\n"), SAY("### Response:\\n", "\\n\\n")) REPLY("### Response:\\n") },

	/* ---- DeepSeek ---- */
	{ "deepseek-coder", BOS BY_ROLE("{{ m.content }}", SAY("### Instruction:\\n", "\\n"), SAY("### Response:\\n", "\\n<|EOT|>\\n")) REPLY("### Response:\\n") },
	{ "deepseek-v2", BOS BY_ROLE(SAY("", "\\n\\n"), SAY("User: ", "\\n\\n"), "{{ 'Assistant: ' + m.content + eos_token }}") REPLY("Assistant:") },
	{ "deepseek-v3", DEEPSEEK_TURNS("m.content") REPLY("<｜Assistant｜>") },
	{ "deepseek-r1", DEEPSEEK_TURNS("m.content.split('</think>')[-1]") REPLY("<｜Assistant｜><think>\\n") },

	/* ---- Cohere, Granite, Kimi, GLM, OpenAI, ByteDance ---- */
	{ "command-r", BOS FIRST_SYSTEM "{% if first is defined %}{{ '" COHERE("SYSTEM") "' + first + '" END_COHERE "' }}{% endif %}"
	  EACH_OF_REST IN_TURNS "{% if m.role == 'user' %}" SAY_TRIMMED(COHERE("USER"), END_COHERE) "{% elif m.role == 'assistant' %}" SAY_TRIMMED(COHERE("CHATBOT"), END_COHERE)
	  "{% endif %}" END_EACH REPLY(COHERE("CHATBOT")) },
	{ "granite", EACH "{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\\n' }}" END_EACH
	  REPLY("<|start_of_role|>assistant<|end_of_role|>") },
	{ "kimi-k2", EACH "{{ '<|im_' + m.role + '|>' + m.role + '<|im_middle|>' + m.content + '<|im_end|>' }}" END_EACH
	  REPLY("<|im_assistant|>assistant<|im_middle|>") },
	{ "chatglm4", "{{ '[gMASK]<sop>' }}" EACH "{% if m.content %}{{ '<|' + m.role + '|>\\n' + m.content }}{% endif %}" END_EACH REPLY("<|assistant|>\\n") },
	{ "glm4.6", LAST_QUESTION "{{ '[gMASK]<sop>' }}" EACH "{% if m.role != 'assistant' %}{{ '<|' + m.role + '|>\\n' + m.content }}"
	  "{% if m.role == 'user' and not m.content.endswith('/nothink') and enable_thinking is defined and not enable_thinking %}{{ '/nothink' }}{% endif %}{% else %}"
	  SPLIT_THOUGHT "{{ '<|assistant|>\\n' }}{% if loop.index0 > ns.last and thought %}{{ '<think>' + thought.strip() + '</think>' }}{% else %}"
	  "{{ '<think></think>' }}{% endif %}{% if said.strip() %}{{ '\\n' + said.strip() }}{% endif %}{% endif %}" END_EACH
	  "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% if enable_thinking is defined and not enable_thinking %}{{ '\\n<think></think>' }}{% endif %}{% endif %}" },
	{ "gpt-oss", FIRST_SYSTEM "{{ '<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\\nKnowledge cutoff: 2024-06\\n"
	  "Current date: ' + strftime_now('%Y-%m-%d') + '\\n\\nReasoning: medium\\n\\n# Valid channels: analysis, commentary, final. "
	  "Channel must be included for every message.<|end|>' }}{% if first %}"
	  "{{ '<|start|>developer<|message|># Instructions\\n\\n' + first + '\\n\\n<|end|>' }}{% endif %}"
	  EACH_OF_REST "{% if m.role == 'user' %}" SAY("<|start|>user<|message|>", "<|end|>") "{% elif m.role == 'assistant' %}"
	  "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + ('<|return|>' if loop.last and not add_generation_prompt else '<|end|>') }}"
	  "{% endif %}" END_EACH REPLY("<|start|>assistant") },
	{ "seed-oss", EACH "{{ '<seed:bos>' + m.role }}{% if m.role != 'assistant' %}{{ '\\n' + m.content + '<seed:eos>' }}"
	  "{% elif m.content.strip() %}{{ '\\n' + m.content.strip() + '<seed:eos>' }}{% endif %}" END_EACH REPLY("<seed:bos>assistant\\n") },
	{ "rwkv-world", "{% set ns = namespace(system='') %}" EACH "{% if m.role == 'system' %}{% set ns.system = m.content %}{% endif %}" END_EACH
	  BOS "{% if ns.system %}{{ 'System: ' + ns.system + '\\n\\n' }}{% endif %}" EACH "{% if m.role == 'user' %}" SAY_TRIMMED("User: ", "\\n\\n")
	  "{% elif m.role == 'assistant' %}{{ 'Assistant: ' + m.content.split('</think>')[-1].strip() + '\\n\\n' }}{% endif %}" END_EACH REPLY("Assistant:") },
};
/* clang-format on */

const char *chat_builtin_name(size_t i)
{
	return i < LEN(builtin) ? builtin[i].name : NULL;
}

const char *chat_builtin_text(const char *name)
{
	for (size_t i = 0; i < LEN(builtin); i++)
		if (!strcmp(builtin[i].name, name))
			return builtin[i].text;
	return NULL;
}
