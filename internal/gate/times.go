package main

import (
	"encoding/json"
	"os"
	"time"
)

// readTimes returns how long steps took when they last passed. A file that is missing or broken only
// means that estimates come from the table.
func readTimes(file string) map[string]time.Duration {
	times := map[string]time.Duration{}
	text, err := os.ReadFile(file)
	if err != nil {
		return times
	}
	var inSeconds map[string]float64
	if json.Unmarshal(text, &inSeconds) == nil {
		for name, s := range inSeconds {
			times[name] = seconds(s)
		}
	}
	return times
}

// writeTimes keeps the times of the steps of the table that passed, beside those of earlier runs.
func writeTimes(file string, b *board, table catalogue) error {
	inSeconds := map[string]float64{}
	for name, d := range b.usual {
		inSeconds[name] = d.Seconds()
	}
	for _, s := range table {
		if b.states[s.name] == passed {
			inSeconds[s.name] = b.runs[s.name].wall.Round(time.Second / 10).Seconds()
		}
	}
	if len(inSeconds) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(inSeconds, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
