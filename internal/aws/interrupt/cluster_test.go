package interrupt

import (
	"context"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func newCluster(instances ...string) *cloudtest.Cluster {
	return cloudtest.NewCluster(awsv1.LabelCapacityReservationID, instances...)
}

// actorOf reacts to notices in a cluster.
func actorOf(c *cloudtest.Cluster) *respond.Actor {
	m := metric.New(c.Metrics)
	return &respond.Actor{
		Directory: c, Events: c, Metrics: m, ReservationLabel: awsv1.LabelCapacityReservationID, Now: func() time.Time { return start },
		Remover:         execute.Remover{Client: c, Events: c, Metrics: m, PodsToMove: func(context.Context, string) int { return 3 }},
		SpotLost:        func(instanceType, zone string) { c.Note("spot lost " + instanceType + " " + zone) },
		ReservationLost: func(id string) { c.Note("reservation lost " + id) },
	}
}
