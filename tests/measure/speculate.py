#!/usr/bin/env python3
"""tests/measure/speculate.py - what guessed tokens gain (weir --speculate), and that they change nothing.

    tests/measure/speculate.py [--weir ./weir] [--rounds N] [-- OPTIONS of weir]

40 prompts: lists and quotations of a text, questions about it, summaries, and stories without a text. Each is answered with and without
guessing, N times by turns; all answers must have the same tokens. Prints the median of the ratio of decode speeds by kind of prompt."""
import argparse, json, os, statistics, subprocess, sys, tempfile

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


def answer(args, prompt, path, speculate):
    command = [args.weir, '-p', prompt] + ([path, '--docs', 'whole'] if path else []) + ['--json', '-q', '--private', '-n', '200', '--loops', 'stop',
                                                                                       '--speculate', speculate] + args.options
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode:
        sys.exit('%s: %s' % (' '.join(command), run.stderr.strip()))
    return json.loads(run.stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--weir', default='./weir')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('options', nargs='*')
    args = p.parse_args()
    if not os.path.exists(DATA):
        sys.exit('speculate.py: there is no %s: nothing to measure with' % DATA)
    text = texts()
    print('| | prompts | tokens | decode speed with guesses : without | least | most | guessed tokens that were right | drafted for a sampled one |')
    print('|---|---|---|---|---|---|---|---|')
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'text.txt')
        for kind, prompts in (('copy and list', EXTRACT * 2), ('questions', ASK * 2), ('summaries', SHORTEN * 2), ('stories', STORY)):
            ratios, tokens, drafted, accepted = [], 0, 0, 0
            for prompt in prompts:
                if kind != 'stories':
                    with open(path, 'w') as f:
                        f.write(next(text))
                each = []
                for _ in range(args.rounds):
                    on, off = (answer(args, prompt, path if kind != 'stories' else None, s) for s in ('on', 'off'))
                    if on['tokens'] != off['tokens']:
                        sys.exit('speculate.py: other tokens with guesses: %s' % prompt)
                    each.append(on['decode_tps'] / off['decode_tps'])
                ratios.append(statistics.median(each))
                tokens += len(on['tokens'])
                drafted += on['drafted']
                accepted += on['accepted']
            print('| %s | %d | %d | %.2f | %.2f | %.2f | %.0f %% | %.2f |' % (
                kind, len(ratios), tokens, statistics.median(ratios), min(ratios), max(ratios), 100 * accepted / max(1, drafted), drafted / max(1, tokens)), flush=True)


main()
