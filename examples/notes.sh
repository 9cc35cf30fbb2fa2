#!/bin/sh
# An agent in ten lines: it counts the words that it is sent, keeps a record in its workspace, and reports.
set -e
words=$(tail -n +2 | wc -w)  # the first line names who sent them
echo "$words words" >> counts.txt
echo "counted $words words" >&2
if [ "$words" -gt 1000 ]; then
    exec parley tool AskQuestion "That was long: $words words. Shall I go on counting?"
fi
parley tool Send --thread dispatcher "I counted $words words; see counts.txt."
