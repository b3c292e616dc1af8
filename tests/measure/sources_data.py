#!/usr/bin/env python3
"""tests/measure/sources_data.py SQUAD.json HOTPOT.json ESSAYS.json OUT [XQUAD] - makes documents and questions for
tests/measure/sources.

Writes OUT/NAME.md and OUT/NAME.tsv for each of four documents: squad-70k, squad-500k, hotpot-70k and hotpot-500k. Each
line of the table has five columns: half (a or b); kind (one, two or none: number of paragraphs that the answer needs);
the places of these paragraphs in the document ("FROM-TO FROM-TO", in bytes); the accepted answers with | between them;
the question.
squad-*: the paragraph is the one for which the question was written. Every second article is in the document; questions
about the other articles cannot be answered. hotpot-*: the paragraphs are those of the supporting facts.
NAME-follow.tsv of the SQuAD documents: questions that refer to the question before them, which is with its answer in two
more columns. Each is made of two questions about one paragraph: names that both questions have become "it" or "its" in
the second question.
xquad-LANGUAGE.*: the 240 paragraphs of XQuAD (Artetxe et al. 2020) in one language; XQUAD is a folder with its files
xquad.LANGUAGE.json (github.com/google-deepmind/xquad).
"""
import glob
import json
import os
import random
import re
import sys

TOKEN = 4.4   # bytes, of this English text and the default model's tokenizer


class Document:
    def __init__(self):
        self.part, self.at = [], 0

    def add(self, text):
        begin = self.at
        self.part.append(text)
        self.at += len(text.encode())
        return begin

    def write(self, path):
        with open(path, 'w', encoding='utf-8', newline='\n') as f:
            f.write(''.join(self.part))


def clean(text):
    return re.sub(r'[\t\r\n]+', ' ', text).strip()


def follow(before, question):
    """Replace the names in the second question that the first one has, too, by "it". None: there are no such names."""
    names = {w.rstrip("'s").strip('?,.').lower() for w in before.split()[1:] if w[:1].isupper() or w[:1].isdigit()}
    out, left = [], 0
    for i, w in enumerate(question.split()):
        bare = w.strip('?,.')
        if i and bare.rstrip("'s").lower() in names:
            left += 1
            word = 'its' if bare.endswith("'s") else 'it'
            if out and out[-1] in ('it', 'its'):
                out[-1] = word
            elif out and out[-1].lower() in ('the', 'a', 'an'):
                out[-1] = word
            else:
                out.append(word)
            if w.endswith('?'):
                out.append('?')
        else:
            out.append(w)
    return ' '.join(out).replace(' ?', '?') if left else None


def half(number):
    return 'ab'[number % 2]


def essays(path):
    text = json.load(open(path, encoding='utf-8'))['text']
    return [p for p in re.split(r'\n\s*\n', text) if p.strip()]


def squad_blocks(data, rows, number):
    """Return a block of paragraphs for each article that is in the document."""
    for i, article in enumerate(data):
        block = [('# ' + article['title'].replace('_', ' '), [])]
        for p in article['paragraphs']:
            number[0] += 1
            asked = [(half(number[0]), q) for q in p['qas'] if not q['is_impossible'] and q['answers']]
            block.append((p['context'], asked))
        if i % 2 == 0:
            yield block
        else:
            for _, asked in block:
                for h, q in asked:
                    rows.append((h, 'none', '', [a['text'] for a in q['answers']], q['question']))


def paragraphs_of(hotpot, gold_only):
    seen = {}
    for q in hotpot:
        gold = {t for t, _ in q['supporting_facts']}
        for title, sentences in q['context']:
            if title not in seen and (title in gold or not gold_only):
                seen[title] = ''.join(sentences).strip()
    return seen


def filler(document, blocks, size):
    for block in blocks:
        if document.at >= size:
            return
        document.add(block + '\n\n')


def squad(data, hotpot, essay, tokens, out):
    rows, document, following = [], Document(), []
    blocks = list(squad_blocks(data, rows, [0]))
    other = ['## %s\n\n%s' % (t, p) for t, p in paragraphs_of(hotpot, False).items()]
    fill = [p for pair in zip(other, essay) for p in pair] + other[len(essay):] + essay[len(other):]
    random.Random(7).shuffle(fill)
    size = tokens * TOKEN
    for i, block in enumerate(blocks):
        for text, asked in block:
            at = document.add(text + '\n\n')
            for h, q in asked:
                place = '%d-%d' % (at, at + len(text.encode()))
                rows.append((h, 'one', place, [x['text'] for x in q['answers']], q['question']))
            for (_, a), (h, b) in zip(asked, asked[1:]):
                question = follow(a['question'], b['question'])
                if question:
                    following.append((h, 'one', place, [x['text'] for x in b['answers']], question, a['question'], a['answers'][0]['text']))
        share = (size - document.at) / (len(blocks) - i)
        goal = document.at + max(share, 0)
        while fill and document.at < goal:
            document.add(fill.pop() + '\n\n')
    save(document, rows, out)
    save(document, following, out + '-follow')


def hotpot_doc(hotpot, data, essay, tokens, gold_only, out):
    rows, document, place = [], Document(), {}
    paragraphs = list(paragraphs_of(hotpot, gold_only).items())
    random.Random(5).shuffle(paragraphs)
    other = [p['context'] for a in data for p in a['paragraphs']] + essay
    random.Random(6).shuffle(other)
    spare = max(0, tokens * TOKEN - sum(len(p.encode()) + len(t) + 8 for t, p in paragraphs))
    step = spare / len(paragraphs)
    due = 0.0
    for title, text in paragraphs:
        document.add('## %s\n\n' % title)
        at = document.add(text + '\n\n')
        place[title] = '%d-%d' % (at, at + len(text.encode()))
        due += step
        while other and due > 0:
            due -= len(other[-1].encode())
            document.add(other.pop() + '\n\n')
    for i, q in enumerate(hotpot):
        gold = list(dict.fromkeys(t for t, _ in q['supporting_facts']))
        if len(gold) == 2 and all(t in place for t in gold):
            rows.append((half(i), 'two', ' '.join(place[t] for t in gold), [q['answer']], q['question']))
    save(document, rows, out)


def xquad(path, out):
    rows, document, number = [], Document(), 0
    for article in json.load(open(path, encoding='utf-8'))['data']:
        for p in article['paragraphs']:
            number += 1
            at = document.add(p['context'] + '\n\n')
            place = '%d-%d' % (at, at + len(p['context'].encode()))
            rows += [(half(number), 'one', place, [a['text'] for a in q['answers']], q['question']) for q in p['qas']]
    save(document, rows, out)


def save(document, rows, out):
    if not out.endswith('-follow'):
        document.write(out + '.md')
    with open(out + '.tsv', 'w', encoding='utf-8', newline='\n') as f:
        for h, kind, place, answers, *said in rows:
            answers = '|'.join(dict.fromkeys(clean(a).replace('|', ' ') for a in answers))
            f.write('\t'.join((h, kind, place, answers, *map(clean, said))) + '\n')


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    squad_path, hotpot_path, essay_path, out = sys.argv[1:5]
    for path in sys.argv[1:4]:
        if not os.path.exists(path):
            sys.exit('sources_data: %s is not there: nothing is measured' % path)
    data = json.load(open(squad_path, encoding='utf-8'))['data']
    hotpot = json.load(open(hotpot_path, encoding='utf-8'))
    essay = essays(essay_path)
    squad(data, hotpot, list(essay), 70000, out + '/squad-70k')
    squad(data, hotpot, list(essay), 500000, out + '/squad-500k')
    hotpot_doc(hotpot, data, list(essay), 70000, True, out + '/hotpot-70k')
    hotpot_doc(hotpot, data, list(essay), 500000, False, out + '/hotpot-500k')
    for path in glob.glob(os.path.join(sys.argv[5], 'xquad.*.json')) if len(sys.argv) > 5 else ():
        xquad(path, '%s/xquad-%s' % (out, path.split('.')[-2]))


if __name__ == '__main__':
    main()
