package cli

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// marketSource reads instance types and prices from AWS, with the credentials of the user.
func marketSource(reader client.Reader) snapshot.MarketSource {
	return func(ctx context.Context, r snapshot.MarketRequest) snapshot.Market {
		var out snapshot.Market
		market, err := aws.OpenMarket(ctx, r.Config, r.Region, version.Get().Version)
		if err != nil {
			out.Missing = append(out.Missing, snapshot.Missing{
				What: "instance types and prices of AWS", Why: firstLine(err),
				Then: "a plan knows only the instance types of nodes that exist; set AWS_PROFILE or AWS_REGION to credentials that may read EC2 and its prices, and give prices with --price-file",
			})
			return out
		}
		if market.Stale != nil {
			out.Missing = append(out.Missing, snapshot.Missing{
				What: "current prices of AWS", Why: firstLine(market.Stale), Then: "on-demand prices that are not known are those of us-east-1, and spot prices those of on-demand; give prices with --price-file",
			})
		}
		out.Price = market.Price
		out.Catalogues = catalogues(ctx, reader, market, r.Pools)
		return out
	}
}

// catalogues are the instance types by node class: NodePools of one class share them, unless one has kubelet settings of
// its own.
func catalogues(ctx context.Context, reader client.Reader, market *aws.Market, pools []karpv1.NodePool) []snapshot.Catalogue {
	classes, err := listClasses(ctx, reader)
	var out []snapshot.Catalogue
	made := map[string]int{}
	for i := range pools {
		pool := &pools[i]
		ref := pool.Spec.Template.Spec.NodeClassRef
		key := ref.Kind + "/" + ref.Name
		if k := pool.Spec.Template.Spec.Kubelet; k != nil {
			key += "/" + string(k.Raw)
		}
		if n, known := made[key]; known {
			out[n].NodePools = append(out[n].NodePools, pool.Name)
			continue
		}
		made[key] = len(out)
		c := snapshot.Catalogue{NodePools: []string{pool.Name}, InstanceTypes: []snapshot.InstanceType{}}
		if err != nil {
			c.Problem = err.Error()
		} else {
			c.InstanceTypes, c.Problem = typesOf(market, classes[ref.Name], pool)
		}
		out = append(out, c)
	}
	return out
}

// listClasses lists the node classes by name. A cluster without the kind has none.
func listClasses(ctx context.Context, reader client.Reader) (map[string]*awsv1.EC2NodeClass, error) {
	var list awsv1.EC2NodeClassList
	err := reader.List(ctx, &list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("EC2NodeClasses may not be read; request the right to list ec2nodeclasses.%s", awsv1.Group)
	case err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return nil, fmt.Errorf("list EC2NodeClasses: %w", err)
	}
	byName := make(map[string]*awsv1.EC2NodeClass, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}

// typesOf are the instance types of a NodePool, or why they are not known.
func typesOf(market *aws.Market, class *awsv1.EC2NodeClass, pool *karpv1.NodePool) (types []snapshot.InstanceType, problem string) {
	ref := pool.Spec.Template.Spec.NodeClassRef
	if ref.Kind != awsv1.Kind && ref.Kind != "" {
		return []snapshot.InstanceType{}, fmt.Sprintf("node classes of kind %s are not known; only %s of AWS is", ref.Kind, awsv1.Kind)
	}
	if class == nil {
		return []snapshot.InstanceType{}, fmt.Sprintf("EC2NodeClass %s does not exist", ref.Name)
	}
	all, err := market.Types(class, pool)
	if err != nil {
		return []snapshot.InstanceType{}, err.Error()
	}
	types = make([]snapshot.InstanceType, 0, len(all))
	for i := range all {
		types = append(types, snapshot.InstanceTypeOf(&all[i], market.Lanes()))
	}
	return types, ""
}

// firstLine is an error for a note: joined errors have a line each.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
