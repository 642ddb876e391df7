package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// Record is a record as it was found.
type Record struct {
	Source string // file, with the line if it has several records
	Data   []byte
}

// Split returns the records of a file: one, or one a line.
func Split(name string, data []byte) []Record {
	var lines [][]byte
	var at []int
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines, at = append(lines, line), append(at, i+1)
		}
	}
	if len(lines) < 2 || !json.Valid(lines[0]) && !json.Valid(lines[1]) { // a record may be laid out over many lines
		return []Record{{Source: name, Data: data}}
	}
	out := make([]Record, 0, len(lines))
	for i := range lines {
		out = append(out, Record{Source: name + ":" + strconv.Itoa(at[i]), Data: lines[i]})
	}
	return out
}

// Result is what became of one record.
type Result struct {
	Source   string               `json:"source"`
	Cluster  string               `json:"cluster,omitempty"`
	Taken    *time.Time           `json:"taken,omitempty"`
	Tool     string               `json:"tool,omitempty"` // that decided before
	Recorded *Figures             `json:"recorded,omitempty"`
	Now      *Figures             `json:"now,omitempty"`
	Differs  []inspect.Difference `json:"differs,omitempty"`
	Problem  string               `json:"problem,omitempty"` // why it could not be decided again
}

// Figures are the totals of a plan.
type Figures struct {
	Hourly    float64 `json:"hourly"` // USD, of all nodes once all is done
	Bound     float64 `json:"bound,omitempty"`
	Removed   int     `json:"removed"`
	Launched  int     `json:"launched"`
	Evictions int     `json:"evictions"`
	Unplaced  int     `json:"unplaced"`
}

func figuresOf(c *inspect.Changes) *Figures {
	return &Figures{
		Hourly: c.After.Hourly, Bound: c.Bound, Removed: len(c.Remove), Launched: len(c.Launch), Evictions: c.Evictions, Unplaced: len(c.Unplaced),
	}
}

// Run decides a record again. stop ends it, which is a problem: half a decision cannot be compared.
func Run(r Record, words reqs.Vocabulary, stop func() bool) Result {
	out := Result{Source: r.Source}
	f, err := snapshot.Decode(bytes.NewReader(r.Data))
	if err != nil {
		out.Problem = "it is not a record: " + err.Error()
		return out
	}
	out.Cluster, out.Taken = f.Name, &f.Taken
	if f.Decided == nil {
		out.Problem = "it is a snapshot without a decision; `dovetail snapshot --with-plan` records one"
		return out
	}
	out.Tool = f.Decided.Tool
	c, err := f.Cluster(words)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	now := inspect.PlanOf(c, stop)
	if stop != nil && stop() {
		out.Problem = "it was interrupted"
		return out
	}
	out.Recorded, out.Now = figuresOf(&f.Decided.Changes), figuresOf(&now)
	out.Differs = inspect.Compare(&f.Decided.Changes, &now)
	return out
}

// Report is what became of all records.
type Report struct {
	Tool      string   `json:"tool"`
	Equal     int      `json:"equal"`
	Different int      `json:"different"`
	Failed    int      `json:"failed"` // could not be decided again
	Results   []Result `json:"results"`
}

// Add adds a result.
func (r *Report) Add(one Result) {
	r.Results = append(r.Results, one)
	switch {
	case one.Problem != "":
		r.Failed++
	case len(one.Differs) > 0:
		r.Different++
	default:
		r.Equal++
	}
}

// Err is not nil unless every record is decided as before.
func (r *Report) Err() error {
	switch {
	case len(r.Results) == 0:
		return errors.New("there are no records")
	case r.Different > 0:
		return fmt.Errorf("this build decides %d of %d records differently", r.Different, len(r.Results))
	case r.Failed > 0:
		return fmt.Errorf("%d of %d records could not be decided again", r.Failed, len(r.Results))
	}
	return nil
}
