#!/usr/bin/env python3
"""tests/measure/recall.py - tests whether a conversation remembers what its cache has evicted.

    tests/measure/recall.py [--seed N] [--tokens N] [--weir ./weir] [-- OPTIONS of weir]

100 facts are told at the beginning of a conversation, which then grows to --tokens tokens by paragraphs of encyclopedia
articles. At its end a question about each fact is asked. Then follow questions about nothing that was evicted: a recall
for one of these is a false one. Facts and paragraphs are made from ../shared/data/ruler; without these files nothing is
measured. The thresholds of app/retrieval/recall.c were chosen on seeds 1 and 2, so use other seeds to judge them.
"""
import argparse, json, os, random, re, subprocess, sys, time

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../shared/data/ruler/')
NAMES = 'Anna Bruno Clara David Elena Felix Greta Hugo Irene Jonas Karin Leon Marta Nils Olga Pavel Rosa Stefan Tilda Viktor'.split()
CITIES = 'Lisbon Oslo Prague Vienna Dublin Madrid Athens Zurich Kyoto Quito Nairobi Hanoi Boston Turin Geneva Leeds Porto Riga'.split()
MONTHS = 'January February March April May June July August September October November December'.split()
# The sentence that is told, the question, and the words that the answer must contain.
PERSONAL = [
    ('By the way, my {r} {N} works as a {x} in {c}.', 'What is the job of my {r} {N}?', '{x}'),
    ('My {r} {N} was born on {d}.', 'When is the birthday of my {r} {N}?', '{d}'),
    ('I keep the spare key of the {n} under the {a} {m}.', 'Where did I put the spare key of the {n}?', '{m}'),
    ('The code of my {n} locker is {k}, in case I forget it.', 'What was the code of the {n} locker?', '{k}'),
    ('The meeting about the {n} has been moved to {w} at {h}.', 'When is the meeting about the {n}?', '{h}'),
    ('{N} still owes me {k} euros for the {n}.', 'How much money does {N} owe me for the {n}?', '{k}'),
    ('Our project at work is called {A} {M} and it must be finished by {d}.', 'What is the deadline of the project {A} {M}?', '{d}'),
    ('The wifi password in the {a} house is {m}{k}.', 'What is the wifi password of the {a} house?', '{m}{k}'),
    ('My doctor told me to take {k} milligrams of {n} every evening.', 'How much {n} should I take in the evening?', '{k}'),
    ('{N} and I first met in {c} at a concert of the {A} {M}.', 'In which city did I meet {N}?', '{c}'),
]
FOLLOW = '''Why?|Can you explain that in simpler words?|Give me an example.|What do you mean by that?|Go on.|Tell me more.
Can you say that again, but shorter?|Summarize what you just said.|Are you sure about that?|How does that work?|Write it as a list.
Translate that into French.|What else should I know?|Thanks, that helps a lot.|I don't understand the second part.|What would you recommend?
Is that always the case?|Could you rewrite the last paragraph in a friendlier tone?|And what happened then?|Who was that?|When did it happen?
What were the consequences?|Which one is better?|What are the advantages and disadvantages?|That's wrong. Try again.|Can you compare the two?
What was the main point?|Let's talk about something else.|What should I do now?|Can you give me three more ideas?|How do you know?
What is the most important part of this text?|Explain it to a child of five years.|Turn this into a poem.|What is your opinion?
Please correct the grammar of your answer.|What does the last sentence mean?|How would you translate the title?|Yes, please.
Write an email about it to my boss.|OK, and how much does it cost?|Is it true that this changed later?|What year was it?
Please answer in one sentence.|Hello, how are you today?'''
NEW = '''How do I boil an egg?|What is the capital of Australia?|Write a short story about a dragon who is afraid of fire.|Explain photosynthesis.
What is the difference between a virus and a bacterium?|Give me a recipe for pancakes.|How do I remove a coffee stain from a shirt?
Who wrote Pride and Prejudice?|What should I wear to a job interview?|Write a Python function that reverses a string.|What is inflation?
How do vaccines work?|Plan a weekend trip to Rome.|What is the best way to save money?|Why is the sky blue?|Tell me a joke about computers.
How do I fix a flat bicycle tire?|Which vegetables can I plant in March?|How do I write a letter of application?|Can dogs eat chocolate?
What is a black hole?|How do I tie a tie?|Recommend a book for a long train journey.|What causes earthquakes?|What is the plot of Hamlet?
How many calories does a banana have?|How does a refrigerator work?|Explain the rules of chess.|How can I fall asleep faster?
What is machine learning?'''


def questions_of(text):
    return [q for line in text.split('\n') for q in line.split('|') if q]


def sentences(text):
    return [s for s in re.split(r'(?<=[.!?])\s+|\n+', text.strip()) if s]


def personal_facts(rng, n):
    nouns, adjectives = ([w.strip() for w in open(DATA + f) if w.strip().isalpha()] for f in ('nounlist.txt', 'adjectivelist.txt'))
    names = rng.sample(NAMES * 8, n)
    out = []
    for i in range(n):
        word = dict(
            r=rng.choice('sister brother cousin uncle aunt neighbour colleague friend'.split()), N=names[i],
            x=rng.choice('carpenter nurse pilot baker lawyer plumber teacher chemist'.split()), c=rng.choice(CITIES),
            d='%d %s' % (rng.randint(1, 28), rng.choice(MONTHS)), n=rng.choice(nouns), m=rng.choice(nouns), a=rng.choice(adjectives),
            A=rng.choice(adjectives).title(), M=rng.choice(nouns).title(), k=rng.randint(101, 9899),
            w=rng.choice('Monday Tuesday Wednesday Thursday Friday'.split()), h='%d:%s' % (rng.randint(8, 17), rng.choice(['15', '30', '45'])))
        out.append(tuple(t.format(**word) for t in PERSONAL[i % len(PERSONAL)]))
    return out


def article_facts(rng, articles, n):
    """Return sentences of articles, each with a question that people wrote about it."""
    out, seen = [], set()
    for article in articles:
        for p in article['paragraphs']:
            for q in p['qas']:
                if q['is_impossible'] or not q['answers']:
                    continue
                gold, at = q['answers'][0], 0
                for s in sentences(p['context']):
                    first = p['context'].find(s, at)
                    at = first + len(s)
                    if first <= gold['answer_start'] < at and len(s) < 400:
                        out.append(('About the %s: %s' % (article['title'].replace('_', ' '), s), q['question'], gold['text']))
                        break
    rng.shuffle(out)
    return [f for f in out if not (f[0] in seen or seen.add(f[0]))][:n]


class Talk:
    def __init__(self, args):
        self.weir = subprocess.Popen([args.weir, '--each-line', '--json', '--temp', '0', '--private', '-n', '12'] + args.options, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.tokens = 0

    def command(self, line):
        self.weir.stdin.write(line + '\n')

    def say(self, line):
        start = time.time()
        self.weir.stdin.write(line + '\n')
        self.weir.stdin.flush()
        answer = json.loads(self.weir.stdout.readline())
        answer['seconds'] = time.time() - start
        self.tokens = answer['prompt_tokens'] + len(answer['tokens'])
        return answer

    def processor(self):
        """Return the processor time of all threads in seconds, in user mode and in the kernel."""
        field = open('/proc/%d/stat' % self.weir.pid).read().rsplit(')', 1)[1].split()
        return (int(field[11]) + int(field[12])) / os.sysconf('SC_CLK_TCK')

    def rss(self):
        for line in open('/proc/%d/status' % self.weir.pid):
            if line.startswith('VmRSS'):
                return int(line.split()[1]) / 1024


class Rate:
    """Speed over the last turns: tokens per second, and processor time, which other programs affect less."""

    def __init__(self, talk):
        self.talk, self.turns = talk, []

    def add(self, answer):
        self.turns.append((answer['decode_tps'], answer['prefill_tps'], self.talk.processor(), self.talk.tokens))

    def row(self):
        last = self.turns[-9:]
        cost = (last[-1][2] - last[0][2]) / (last[-1][3] - last[0][3]) * 1000
        return '| %d | %.0f | %.0f | %.1f | %.0f MiB |' % (
            self.talk.tokens, median(r[0] for r in last), median(r[1] for r in last), cost, self.talk.rss())


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float('nan')


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float('nan')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=11)
    p.add_argument('--tokens', type=int, default=50000)
    p.add_argument('--weir', default='./weir')
    p.add_argument('--verbose', action='store_true')
    p.add_argument('options', nargs='*')
    args = p.parse_args()
    if not os.path.exists(DATA + 'squad-open.json'):
        sys.exit('recall.py: there is no ' + DATA + 'squad-open.json: nothing to measure with')
    rng = random.Random(args.seed)
    squad = json.load(open(DATA + 'squad-open.json'))['data']
    hotpot = json.load(open(DATA + 'hotpotqa-open.json'))
    rng.shuffle(squad)
    told, recent, unseen = squad[:4], squad[4], squad[5:]
    facts = [('personal',) + f for f in personal_facts(rng, 60)] + [('article',) + f for f in article_facts(rng, told, 40)]
    rng.shuffle(facts)
    paragraphs = list({title: ''.join(text) for h in hotpot for title, text in h['context']}.items())
    rng.shuffle(paragraphs)

    talk, points, mark = Talk(args), [], [10000, 25000]
    rate = Rate(talk)
    for kind, fact, question, gold in facts:
        talk.say(fact)
    used = set()
    while talk.tokens < args.tokens - 3000:
        title, text = paragraphs.pop()
        used.add(title)
        a = talk.say(rng.choice(['What do you know about %s? I read this: %s', 'Here is a note about %s. %s What do you think of it?',
                                 'Tell me more about %s. %s', 'Please shorten this text about %s: %s']) % (title, text.replace('\n', ' ')))
        rate.add(a)
        if mark and talk.tokens >= mark[0]:
            mark.pop(0)
            points.append(rate.row())
    last = rng.sample(recent['paragraphs'], 12)
    for paragraph in last:
        a = talk.say('About the %s: %s' % (recent['title'].replace('_', ' '), paragraph['context'].replace('\n', ' ')))
        rate.add(a)
    points.append(rate.row())

    print('| tokens of the conversation | decode, t/s | prefill, t/s | processor, s for 1,000 tokens | resident memory |\n|---|---|---|---|---|')
    print('\n'.join(points), flush=True)
    seconds = []
    talk.command('/set n 32')
    rows = {}
    rng.shuffle(facts)
    for kind, fact, question, gold in facts:
        a = talk.say(question)
        text = ' '.join((r['question'] or '') + ' ' + (r['answer'] or '') for r in a['recalled'])
        seconds.append(a['recall_s'])
        rows.setdefault(kind, []).append((gold in text, gold.lower() in a['text'].lower(), bool(a['recalled'])))
        if args.verbose and gold not in text:
            print('#', kind, '|', fact, '|', question, '|', a['recalled'])
    rows['all'] = sum(rows.values(), [])
    print('\n| facts | asked | something recalled | the fact recalled | in the answer |\n|---|---|---|---|---|')
    for kind, r in sorted(rows.items(), key=lambda x: x[0] == 'all'):
        print('| %s | %d | %.0f %% | %.0f %% | %.0f %% |' % (kind, len(r), 100 * mean(x[2] for x in r), 100 * mean(x[0] for x in r), 100 * mean(x[1] for x in r)))

    talk.command('/set n 8')
    ask_unseen = [q['question'] for a in unseen for p in a['paragraphs'] for q in p['qas'] if not q['is_impossible']]
    ask_recent = [(q['question'], p['context']) for p in last[-4:] for q in p['qas'] if not q['is_impossible']]
    groups = [
        ('about the last turns, not counted', rng.sample(ask_recent, min(20, len(ask_recent)))), ('follow-ups', questions_of(FOLLOW)),
        ('everyday questions', questions_of(NEW)), ('about articles that were never mentioned', rng.sample(ask_unseen, 60)),
        ('two-hop, about such articles', [h['question'] for h in hotpot if not any(t in used for t, _ in h['context'])][:40]),
    ]
    print('\n| questions about nothing evicted | asked | recalled |\n|---|---|---|')
    total = wrong = 0
    for name, questions in groups:
        false = 0
        for q in questions:
            q, about = q if isinstance(q, tuple) else (q, '')
            a = talk.say(q)
            seconds.append(a['recall_s'])
            # If the paragraph that is asked about was evicted meanwhile, to recall a part of it is right.
            bad = any(not r['question'] or r['question'] not in about for r in a['recalled'])
            false += bad
            if args.verbose and bad:
                print('#', name, '|', q, '|', a['recalled'])
        print('| %s | %d | %d (%.1f %%) |' % (name, len(questions), false, 100 * false / max(1, len(questions))))
        if not about:   # questions about the last turns are left out: these may be evicted by now
            total, wrong = total + len(questions), wrong + false
    print('| all | %d | %d (%.1f %%) |' % (total, wrong, 100 * wrong / total))

    seconds.sort()
    print('\nRecall took %.0f ms in the median, %.0f ms at most; %.1f ms where no turn shared enough words. %d tokens at the end, %.0f MiB.' % (
        1000 * median(seconds), 1000 * seconds[-1], 1000 * seconds[len(seconds) // 20], talk.tokens, talk.rss()))
    talk.weir.stdin.close()
    talk.weir.wait()


main()
