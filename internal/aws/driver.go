package aws

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/aws/settings"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Driver is AWS for the wiring.
func Driver() driver.Driver {
	return driver.Driver{
		Name: "aws", Title: "AWS", Settings: settings.Section, Words: awsv1.Vocabulary(), ReservationLabel: awsv1.LabelCapacityReservationID, InstanceName: inventory.InstanceID,
		Labels:      metric.Labels{Nodes: awsv1.WellKnownLabels(), Classes: []string{strings.ToLower(awsv1.Kind)}},
		AddToScheme: awsv1.AddToScheme,
		Classes:     func(cfg config.Config) []driver.Class { return []driver.Class{ec2NodeClass(settings.Of(cfg).Gates)} },
		Connect:     func(ctx context.Context, o driver.Options) (driver.Cloud, error) { return New(ctx, o) },
		Cleaner: func(ctx context.Context, cfg config.Config, version string, metrics *metric.Set) (driver.Cleaner, error) {
			cleaner, err := newCleaner(ctx, cfg, version, metrics)
			if err != nil {
				return nil, err
			}
			return cleaner.clean, nil
		},
		OpenMarket: func(ctx context.Context, cfg config.Config, region, version string) (driver.Market, error) {
			return openMarket(ctx, cfg, region, version)
		},
		ConditionDocs: func() (classes, denials []condition.Doc) { return classDocs(), denialDocs() },
		Access:        "set AWS_PROFILE or AWS_REGION to credentials that may read EC2 and its prices",
	}
}

// ec2NodeClass is the only kind of node classes.
func ec2NodeClass(gates settings.Gates) driver.Class {
	return driver.Class{
		GroupVersionKind: awsv1.GroupVersion().WithKind(awsv1.Kind),
		New:              func() client.Object { return &awsv1.EC2NodeClass{} },
		NewList:          func() client.ObjectList { return &awsv1.EC2NodeClassList{} },
		Conditions:       func(o client.Object) []metav1.Condition { return o.(*awsv1.EC2NodeClass).Status.Conditions },
		Refusals: func(class client.Object, pool *karpv1.NodePool) []reason.Reason {
			return refusals(class.(*awsv1.EC2NodeClass), pool, gates.NodeClassCEL)
		},
		Finalizer: awsv1.FinalizerTermination,
		Makes:     "instance profiles and launch templates",
	}
}
