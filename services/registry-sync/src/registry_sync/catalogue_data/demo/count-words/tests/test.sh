#!/bin/bash
# Runs the checks and writes the reward: 1 when all of them hold, else 0.
mkdir -p /logs/verifier
python3 -I /tests/check.py
passed=$?
rm -f /logs/verifier/reward.*  # no reward but this one counts, whatever ran inside the checks
if [ "$passed" -eq 0 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
