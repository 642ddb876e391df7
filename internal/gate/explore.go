package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// explore looks for what fixed seeds do not find, until its time is up or something fails. Each step
// prints what it drew before it runs.
func (r *runner) explore(ctx context.Context, all survey, box time.Duration, seed uint64) {
	r.screen.print(fmt.Sprintf("exploring for %s with seed %d; `bin/gate -explore %s -seed %d` draws the same again", box, seed, box, seed))
	ctx, cancel := context.WithTimeout(ctx, box)
	defer cancel()
	chance := rand.New(rand.NewPCG(seed, 0))
	for k := 0; ctx.Err() == nil && (r.board.allPassed() || r.board.rules.keepGoing); k++ {
		s := exploration(all, k, chance)
		r.board.steps = append(r.board.steps, s)
		r.run(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && r.board.states[s.name] == stopped {
			r.board.states[s.name] = timeUp
		}
	}
}

// exploration is the step of one round. Properties, simulated clusters and fuzz targets take turns; each
// turn goes twice as deep as the one before.
func exploration(all survey, k int, chance *rand.Rand) step {
	const kinds = 3
	turn := k / kinds
	times := 1 << min(turn, 10)
	s := step{lane: laneCPU, usually: time.Minute}
	switch k % kinds {
	case 0:
		seed, checks := chance.Uint64N(1<<62)+1, 100*times
		s.name, s.about = fmt.Sprintf("prop-%d", turn+1), fmt.Sprintf("properties, %d checks each from seed %d on", checks, seed)
		c := propertiesOf(all, fmt.Sprintf("-rapid.checks=%d", checks), fmt.Sprintf("-rapid.seed=%d", seed))
		c.env = []string{"DOVETAIL_EXPLORE=1"}
		s.commands = []command{c}
	case 1:
		from, seeds := chance.Uint64N(1<<40)+1, 100*times
		s.name, s.about = fmt.Sprintf("sim-%d", turn+1), fmt.Sprintf("%d simulated clusters from seed %d on", seeds, from)
		s.commands = []command{goTestOf("", []string{"-vet=off", "-timeout=0", "-run=^TestSeeds$"}, []string{simPackage}, []string{fmt.Sprintf("-seeds=%d", seeds), fmt.Sprintf("-from=%d", from)})}
	default:
		const most = 4
		d := time.Duration(5*times) * time.Second
		targets := fuzzCommands(all, d)
		chance.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
		s.commands = targets[:min(most, len(targets))]
		s.name, s.about = fmt.Sprintf("fuzz-%d", turn+1), fmt.Sprintf("%d fuzz targets, %s each", len(s.commands), d)
	}
	return s
}
