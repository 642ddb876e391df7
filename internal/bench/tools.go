package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// figures are the fields of either mode that the report reads.
type figures struct {
	Pods      int     `json:"pods"`
	Scheduled int     `json:"scheduled"`
	NewNodes  int     `json:"newNodes"`
	Cost      float64 `json:"hourlyCost"`
	Bound     float64 `json:"lowerBound"`
	SetupMs   float64 `json:"setupMs"`
	SolveMs   float64 `json:"solveMs"`
	TimedOut  bool    `json:"timedOut"`

	NodesBefore int     `json:"nodesBefore"`
	NodesAfter  int     `json:"nodesAfter"`
	CostBefore  float64 `json:"costBefore"`
	CostAfter   float64 `json:"costAfter"`
	Done        bool    `json:"done"`
	PodsMoved   int     `json:"podsMoved"`
	PlanningMs  float64 `json:"planningMs"`
	FirstLook   look    `json:"firstLook"`
	LastLook    look    `json:"lastLook"`
	// The peer looks with two methods and times each by itself.
	FirstMulti  look    `json:"firstMulti"`
	FirstSingle look    `json:"firstSingle"`
	LastMulti   look    `json:"lastMulti"`
	LastSingle  look    `json:"lastSingle"`
	MultiMs     float64 `json:"multiMs"`
	SingleMs    float64 `json:"singleMs"`

	BaseRSSMiB float64 `json:"baseRssMiB"`
	PeakRSSMiB float64 `json:"peakRssMiB"`

	killedAfter time.Duration // it did not stop on request
}

type look struct {
	CandidatesMs float64 `json:"candidatesMs"`
	ComputeMs    float64 `json:"computeMs"`
}

func (l look) ms() float64 { return l.CandidatesMs + l.ComputeMs }

func (f *figures) aboveBase() float64   { return max(0, f.PeakRSSMiB-f.BaseRSSMiB) }
func (f *figures) provisionMs() float64 { return f.SetupMs + f.SolveMs }
func (f *figures) firstLookMs() float64 {
	return f.FirstLook.ms() + f.FirstMulti.ms() + f.FirstSingle.ms()
}

func (f *figures) lastLookMs() float64 { return f.LastLook.ms() + f.LastMulti.ms() + f.LastSingle.ms() }
func (f *figures) planningMs() float64 { return f.PlanningMs + f.MultiMs + f.SingleMs }

// pair is one scenario and what the tools made of it.
type pair struct {
	file         string
	consolidates bool
	ours         *figures
	theirs       *figures
}

func (p *pair) mode() string {
	if p.consolidates {
		return "consolidate"
	}
	return "provision"
}

func runDovetail(ctx context.Context, o options, p pair) (*figures, error) {
	return call(ctx, o.dovetail, "plan", "--scenario", p.file, "--mode", p.mode(), "--workers", strconv.Itoa(o.workers), "--format", "json")
}

// runPeer signals the other tool to stop, and kills it when it does not.
func runPeer(ctx context.Context, o options, p pair) (*figures, error) {
	const patience = 3 // it finishes what it has begun, which may take as long again
	ctx, cancel := context.WithTimeout(ctx, patience*o.limit)
	defer cancel()
	started := time.Now()
	f, err := call(ctx, o.peer, "-scenario", p.file, "-mode", p.mode(), "-concurrency", strconv.Itoa(max(1, o.workers)), "-timeout", o.limit.String())
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &figures{killedAfter: time.Since(started)}, nil
	}
	return f, err
}

func call(ctx context.Context, tool string, args ...string) (*figures, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", tool, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	f := &figures{}
	if err := json.Unmarshal(lastLine(out.Bytes()), f); err != nil {
		return nil, fmt.Errorf("%s: %w: %q", tool, errNoFigures, out.String())
	}
	return f, nil
}
