package bars

import (
	"bytes"
	"encoding/json"
	"os"
	"time"
)

// Landmarks of the log (operations 10.1).
const (
	foundPods      = "found provisionable pod(s)"
	computedClaims = "computed new nodeclaim(s) to fit pod(s)"
	placesTaken    = "other pods were scheduled where pod(s) were expected; these need new nodes"
)

// pass is one time that the controller planned.
type pass struct {
	closed   time.Time // when the batch was
	found    time.Time // when it knew what to plan for
	computed time.Time // when the plan was made; zero if nothing new was needed
	claims   int       // that the plan wants
	price    float64   // of them, in dollars an hour
}

// readPasses reads the log of the controller. Times in it have milliseconds.
func readPasses(file string) ([]pass, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return passesIn(text), nil
}

func passesIn(text []byte) []pass {
	var all []pass
	for line := range bytes.Lines(text) {
		var entry struct {
			Time     time.Time `json:"time"`
			Message  string    `json:"message"`
			Duration string    `json:"duration"`
			Claims   int       `json:"nodeclaims"`
			Price    float64   `json:"price"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue // not ours: a crash, or a line that is being written
		}
		switch {
		case entry.Message == foundPods:
			looked, _ := time.ParseDuration(entry.Duration) // none means that it took no time
			all = append(all, pass{closed: entry.Time.Add(-looked), found: entry.Time})
		case entry.Message == computedClaims && len(all) > 0:
			last := &all[len(all)-1]
			last.computed, last.claims, last.price = entry.Time, entry.Claims, entry.Price
		}
	}
	return all
}

// displacedIn adds up the pods that needed another node because the scheduler had put others in their place.
func displacedIn(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		var entry struct {
			Message string `json:"message"`
			Pods    int    `json:"pods"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Message == placesTaken {
			n += entry.Pods
		}
	}
	return n
}
