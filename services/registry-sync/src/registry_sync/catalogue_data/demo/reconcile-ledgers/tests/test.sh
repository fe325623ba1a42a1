#!/bin/bash
# Runs the checks and writes the reward: 1 when all of them hold, else 0.
mkdir -p /logs/verifier
if python3 /tests/check.py; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
