package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// marketSource reads instance types and prices from the cloud, with the credentials of the user.
func marketSource(d driver.Driver, reader client.Reader) snapshot.MarketSource {
	return func(ctx context.Context, r snapshot.MarketRequest) snapshot.Market {
		var out snapshot.Market
		market, err := d.OpenMarket(ctx, r.Config, r.Region, version.Get().Version)
		if err != nil {
			out.Missing = append(out.Missing, snapshot.Missing{
				What: "instance types and prices of " + d.Title, Why: firstLine(err),
				Then: "a plan knows only the instance types of nodes that exist; " + d.Access + ", and give prices with --price-file",
			})
			return out
		}
		if why, instead := market.Stale(); why != nil {
			out.Missing = append(out.Missing, snapshot.Missing{
				What: "current prices of " + d.Title, Why: firstLine(why), Then: instead + "; give prices with --price-file",
			})
		}
		out.Price = market.Price
		c := catalogues{cloud: d.Title, kinds: d.Classes(r.Config), classes: map[string]client.Object{}, market: market}
		out.Catalogues = c.of(ctx, reader, r.Pools)
		return out
	}
}

// catalogues makes the catalogues of NodePools.
type catalogues struct {
	cloud   string
	kinds   []driver.Class
	classes map[string]client.Object // by kind and name
	market  driver.Market
}

// of returns the instance types by node class: NodePools of one class share them, unless one has kubelet settings of its own.
func (c *catalogues) of(ctx context.Context, reader client.Reader, pools []karpv1.NodePool) []snapshot.Catalogue {
	err := c.listClasses(ctx, reader)
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
		next := snapshot.Catalogue{NodePools: []string{pool.Name}, InstanceTypes: []snapshot.InstanceType{}}
		if err != nil {
			next.Problem = err.Error()
		} else {
			next.InstanceTypes, next.Problem = c.typesOf(pool)
		}
		out = append(out, next)
	}
	return out
}

// listClasses lists the node classes of all kinds. A cluster without a kind has none of it.
func (c *catalogues) listClasses(ctx context.Context, reader client.Reader) error {
	for _, k := range c.kinds {
		resource, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
		plural := k.Kind + strings.TrimPrefix(resource.Resource, strings.ToLower(k.Kind))
		list := k.NewList()
		err := reader.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Errorf("%s may not be read; request the right to list %s", plural, resource.GroupResource())
		case err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
			return fmt.Errorf("list %s: %w", plural, err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			class := o.(client.Object)
			c.classes[k.Kind+"/"+class.GetName()] = class
			return nil
		}); err != nil {
			return fmt.Errorf("list %s: %w", plural, err)
		}
	}
	return nil
}

// typesOf are the instance types of a NodePool, or why they are not known.
func (c *catalogues) typesOf(pool *karpv1.NodePool) (types []snapshot.InstanceType, problem string) {
	ref := pool.Spec.Template.Spec.NodeClassRef
	var known []string
	ours := ref.Kind == ""
	for _, k := range c.kinds {
		known = append(known, k.Kind)
		ours = ours || ref.Kind == k.Kind
	}
	if !ours {
		return []snapshot.InstanceType{}, fmt.Sprintf("node classes of kind %s are not known; only %s of %s is", ref.Kind, strings.Join(known, ", "), c.cloud)
	}
	kind := cmp.Or(ref.Kind, known[0])
	class := c.classes[kind+"/"+ref.Name]
	if class == nil {
		return []snapshot.InstanceType{}, fmt.Sprintf("%s %s does not exist", kind, ref.Name)
	}
	all, err := c.market.Types(class, pool)
	if err != nil {
		return []snapshot.InstanceType{}, err.Error()
	}
	types = make([]snapshot.InstanceType, 0, len(all))
	for i := range all {
		types = append(types, snapshot.InstanceTypeOf(&all[i], c.market.Lanes()))
	}
	return types, ""
}

// firstLine is an error for a note: joined errors have a line each.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
