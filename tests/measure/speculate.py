#!/usr/bin/env python3
"""tests/measure/speculate.py - measures what guessed tokens gain (weir --speculate), and checks that they change nothing.

    tests/measure/speculate.py [--weir ./weir] [--before PROGRAM] [--rounds N] [--cpu] [-- OPTIONS of weir]

There are 40 prompts: lists and quotations of a text, questions about it, summaries, and stories without a text. Each is
answered with and without guessing, by turns, N times; all answers must have the same tokens. Prints the median ratio of
decode speeds for each kind of prompt.
--before: an earlier weir takes part in the same turns, and has lines of its own. --cpu: run with one thread, and compute
the decode speed from the processor time, less the least time of an answer of one token. Other programs affect this
figure less, but one round is too few.
"""
import argparse, json, os, resource, statistics, subprocess, sys, tempfile

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../shared/data/ruler/squad-open.json')
EXTRACT = ['Repeat the first paragraph word for word.', 'Copy all sentences with a number, word for word.', 'List all names and dates in the text.',
           'Quote the three most important sentences.', 'Write the text again, as a list of its sentences.']
ASK = ['What is this text about?', 'Who are the people in this text, and what did they do?', 'Which dates matter, and why?', 'What happened first, and what then?',
       'Explain the main point to a beginner.']
SHORTEN = ['Summarize the text in five sentences.', 'Summarize each paragraph in one sentence.', 'Write a headline and a short summary.',
           'Give the key points as a list.', 'Shorten the text to half its length.']
STORY = ['Tell a story about a ship in the fog.', 'Write a story about a dragon who is afraid of fire.', 'Tell the story of a lost letter.',
         'Write a tale of two neighbours and a wall.', 'Write about a night train.', 'Tell a story of a clock that stops.', 'Invent a fable about a fox.',
         'Write a story that ends with rain.', 'Write a letter from an island.', 'Tell how a village got its bell.']


def texts():
    for article in json.load(open(DATA))['data']:
        for first in range(0, len(article['paragraphs']) - 3, 4):
            yield '\n\n'.join(p['context'] for p in article['paragraphs'][first:first + 4])


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answer(args, program, prompt, path, speculate, length=200):
    """Return the answer as JSON, and the processor time that it took."""
    command = [program, '-p', prompt] + ([path, '--docs', 'whole'] if path else []) + ['--json', '-q', '--private', '-n', str(length), '--loops', 'stop',
                                                                                     '--speculate', speculate] + (['-t', '1'] if args.cpu else []) + args.options
    start = cpu_seconds()
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode:
        sys.exit('%s: %s' % (' '.join(command), run.stderr.strip()))
    return json.loads(run.stdout), cpu_seconds() - start


def measured(args, ways, prompt, path):
    """Return the last answers and the medians of decode speeds, each as a list by way; the first way is without guesses.
    None: the answer is too short to be measured."""
    speeds, answers, first = [[] for _ in ways], [None] * len(ways), []
    for _ in range(args.rounds):
        if args.cpu:
            first.append(answer(args, args.weir, prompt, path, 'off', 1)[1])
        for i, (program, speculate) in enumerate(ways):
            answers[i], seconds = answer(args, program, prompt, path, speculate)
            if answers[i]['tokens'] != answers[0]['tokens']:
                sys.exit('speculate.py: other tokens with guesses: %s' % prompt)
            speeds[i].append(seconds if args.cpu else answers[i]['decode_tps'])
    if args.cpu and len(answers[0]['tokens']) < 20:
        return None
    return answers, [1 / (statistics.median(s) - min(first)) if args.cpu else statistics.median(s) for s in speeds]


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--weir', default='./weir')
    p.add_argument('--before')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--cpu', action='store_true')
    p.add_argument('options', nargs='*')
    args = p.parse_args()
    if not os.path.exists(DATA):
        sys.exit('speculate.py: there is no %s: nothing to measure with' % DATA)
    ways = [(args.weir, 'off')] + ([(args.before, 'on')] if args.before else []) + [(args.weir, 'on')]
    text = texts()
    print('| | prompts | tokens | decode speed with guesses : without | least | most | guessed tokens that were right | drafted for a sampled one |')
    print('|---|---|---|---|---|---|---|---|')
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'text.txt')
        for kind, prompts in (('copy and list', EXTRACT * 2), ('questions', ASK * 2), ('summaries', SHORTEN * 2), ('stories', STORY)):
            ratios, counts = [[] for _ in ways], [[0, 0, 0] for _ in ways]
            for prompt in prompts:
                if kind != 'stories':
                    with open(path, 'w') as f:
                        f.write(next(text))
                got = measured(args, ways, prompt, path if kind != 'stories' else None)
                for i in range(1, len(ways) if got else 0):
                    answers, speeds = got
                    ratios[i].append(speeds[i] / speeds[0])
                    for k, n in enumerate((len(answers[i]['tokens']), answers[i]['drafted'], answers[i]['accepted'])):
                        counts[i][k] += n
            for i in range(1, len(ways)):
                tokens, drafted, accepted = counts[i]
                print('| %s | %d | %d | %.2f | %.2f | %.2f | %.0f %% | %.2f |' % (
                    kind + (', before' if i < len(ways) - 1 else ''), len(ratios[i]), tokens, statistics.median(ratios[i]), min(ratios[i]), max(ratios[i]),
                    100 * accepted / max(1, drafted), drafted / max(1, tokens)), flush=True)


main()
