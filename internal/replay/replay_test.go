package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/replay"
	_ "github.com/dovetail-sh/dovetail/internal/seed"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// record decides for a cluster and writes both down.
func record(t interface{ Fatal(...any) }, o snapshottest.Options, change func(*inspect.Changes)) []byte {
	f := snapshottest.New(o)
	if err := f.Record(awsv1.Vocabulary(), "dovetail test", nil); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&f.Decided.Changes)
	}
	var out bytes.Buffer
	if err := f.Encode(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func run(data []byte) replay.Result {
	return replay.Run(replay.Record{Source: "a.json", Data: data}, awsv1.Vocabulary(), nil)
}

func TestRP_01_WhatThisBuildRecordedIsEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := record(t, snapshottest.Options{
			Nodes: rapid.IntRange(0, 12).Draw(t, "nodes"), Pods: rapid.IntRange(1, 5).Draw(t, "pods"),
			Pending: rapid.IntRange(0, 5).Draw(t, "pending"), Huge: rapid.IntRange(0, 2).Draw(t, "huge"),
		}, nil)
		if got := run(data); got.Problem != "" || len(got.Differs) > 0 || got.Now.Hourly != got.Recorded.Hourly {
			t.Errorf("got %+v, want no difference", got)
		}
	})
}

func TestRP_02_EveryKindOfDifferenceIsFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*inspect.Changes)
		want   []inspect.Difference // without what is the same in all records
	}{
		"it cost more": {
			func(c *inspect.Changes) { c.After.Hourly = 0.5 },
			[]inspect.Difference{{What: inspect.DiffersInCost, Before: "$0.50 an hour", After: "$0.32 an hour"}},
		},
		"the bound was lower": {
			func(c *inspect.Changes) { c.Bound = 0.2 },
			[]inspect.Difference{{What: inspect.DiffersInBound, Before: "$0.20 an hour", After: "$0.28 an hour"}},
		},
		"it evicted more": {
			func(c *inspect.Changes) { c.Evictions = 30 },
			[]inspect.Difference{{What: inspect.DiffersInEvictions, Before: "30", After: "12"}},
		},
		"it removed a node that stays now": {
			func(c *inspect.Changes) {
				c.Remove = append(c.Remove, inspect.Removal{Node: "node-0001", Reason: "Empty"})
			},
			[]inspect.Difference{{What: inspect.DiffersInRemoved, Object: "node-0001", Before: "Empty, later"}},
		},
		"it began later": {
			func(c *inspect.Changes) { c.Remove[0].Now = !c.Remove[0].Now },
			[]inspect.Difference{{What: inspect.DiffersInRemoved, Object: "node-0003", Before: "Underutilized, later", After: "Underutilized, now"}},
		},
		"it launched one more": {
			func(c *inspect.Changes) {
				c.Launch = append(c.Launch, inspect.Launch{Pool: "p", Type: "t", Zone: "z", Market: "spot"})
			},
			[]inspect.Difference{{What: inspect.DiffersInLaunched, Object: "spot t in z of NodePool p", Before: "1 node"}},
		},
		"it moved a pod elsewhere": {
			func(c *inspect.Changes) { c.Moves[0].To = "node-0001" },
			[]inspect.Difference{{What: inspect.DiffersInMoved, Object: "default/web-0000-0", Before: "node-0001", After: "a new spot m5.large in us-east-1a of NodePool default"}},
		},
		"it placed a pending pod elsewhere": {
			func(c *inspect.Changes) { c.Binds[0].To = "node-0009" },
			[]inspect.Difference{{What: inspect.DiffersInPlaced, Object: "default/pending-0000", Before: "node-0009", After: "node-0005"}},
		},
		"it gave another reason": {
			func(c *inspect.Changes) { c.Unplaced[0].Why = c.Unplaced[0].Why[1:] },
			[]inspect.Difference{{What: inspect.DiffersInUnplaced, Object: "default/huge-0000", Before: "NodeFull", After: "NoTypeFits+NodeFull"}},
		},
		"it did not say why a node stays": {
			func(c *inspect.Changes) { c.Kept = c.Kept[1:] },
			[]inspect.Difference{{What: inspect.DiffersInKept, Object: "node-0001", After: "SpotToSpotOff"}},
		},
		"it had no time": {
			func(c *inspect.Changes) { c.Partial = true },
			[]inspect.Difference{{What: inspect.DiffersInTime, Before: "true", After: "false"}},
		},
		"only words are different": {
			func(c *inspect.Changes) { c.Unplaced[0].Why[0].Text, c.Kept[0].Why.Fix = "it does not fit", "" },
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(record(t, snapshottest.Options{Nodes: 6, Pending: 3, Huge: 1}, tc.change))
			if got.Problem != "" {
				t.Fatal(got.Problem)
			}
			if diff := cmp.Diff(tc.want, got.Differs); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRP_03_RecordsThatCannotBeReadStopNoOthers(t *testing.T) {
	t.Parallel()
	good := record(t, snapshottest.Options{Nodes: 2}, nil)
	undecided := snapshottest.New(snapshottest.Options{})
	var plain bytes.Buffer
	if err := undecided.Encode(&plain); err != nil {
		t.Fatal(err)
	}
	lines := slices.Concat(good, []byte("{\"kind\":\"List\"}\n\nnot json\n"), plain.Bytes(), good)
	report := replay.Report{}
	for _, r := range replay.Split("records.jsonl", lines) {
		report.Add(replay.Run(r, awsv1.Vocabulary(), nil))
	}
	if report.Equal != 2 || report.Failed != 3 || report.Different != 0 {
		t.Fatalf("got %+v, want 2 equal records and 3 failed ones", report)
	}
	for i, want := range map[int]string{1: "records.jsonl:2 it is not a record: ", 2: "records.jsonl:4 it is not a record: line 1: ", 3: "records.jsonl:5 it is a snapshot without a decision"} {
		if got := report.Results[i].Source + " " + report.Results[i].Problem; !strings.HasPrefix(got, want) {
			t.Errorf("record %d: %q, want %q", i, got, want)
		}
	}
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "3 of 5") {
		t.Errorf("the report ends with %v", err)
	}
}

func TestRP_03_ARecordMayBeLaidOutOverLines(t *testing.T) {
	t.Parallel()
	var f snapshot.File
	if err := json.Unmarshal(record(t, snapshottest.Options{Nodes: 2}, nil), &f); err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(&f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	list := replay.Split("a.json", data)
	if len(list) != 1 || list[0].Source != "a.json" || run(list[0].Data).Problem != "" {
		t.Errorf("got %d records: %s", len(list), run(list[0].Data).Problem)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := run(packed.Bytes()); got.Problem != "" {
		t.Error(got.Problem)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("{}\n{}\n"))
	f.Add([]byte("{\n}\n"))
	f.Add([]byte("{\"format\":\"dovetail.sh/snapshot/v1\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range replay.Split("x", data) {
			if out := replay.Run(r, awsv1.Vocabulary(), nil); out.Problem == "" && out.Now == nil {
				t.Errorf("neither a problem nor a decision: %+v", out)
			}
		}
	})
}
