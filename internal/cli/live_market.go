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
	"github.com/dovetail-sh/dovetail/internal/catalog"
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
		if instead, why := market.Stale(); why != nil {
			out.Missing = append(out.Missing, snapshot.Missing{
				What: "current prices of " + d.Title, Why: firstLine(why), Then: instead + "; give prices with --price-file",
			})
		}
		out.Price = market.Price
		c := catalogues{cloud: d.Title, kinds: d.Classes(r.Config), classes: map[string]client.Object{}, market: market, counted: map[string]bool{}}
		var missing []snapshot.Missing
		out.Catalogues, missing = c.of(ctx, reader, r.Pools)
		out.Missing = append(out.Missing, missing...)
		return out
	}
}

// catalogues makes the catalogues of NodePools.
type catalogues struct {
	cloud   string
	kinds   []driver.Class
	classes map[string]client.Object // by kind and name
	market  driver.Market
	counted map[string]bool // classes, by kind and name, whose reserved capacity is
	missing []snapshot.Missing
}

// of returns the instance types of NodePools, and what of them could not be read.
func (c *catalogues) of(ctx context.Context, reader client.Reader, pools []karpv1.NodePool) ([]snapshot.Catalogue, []snapshot.Missing) {
	err := c.listClasses(ctx, reader)
	out := snapshot.Catalogues{Lanes: c.market.Lanes()}
	for i := range pools {
		pool := &pools[i]
		if err != nil {
			out.Add(pool.Name, nil, err.Error())
			continue
		}
		types, problem := c.typesOf(ctx, pool)
		out.Add(pool.Name, types, problem)
	}
	return out.List(), c.missing
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
func (c *catalogues) typesOf(ctx context.Context, pool *karpv1.NodePool) (types []catalog.InstanceType, problem string) {
	ref := pool.Spec.Template.Spec.NodeClassRef
	var known []string
	ours := ref.Kind == ""
	for _, k := range c.kinds {
		known = append(known, k.Kind)
		ours = ours || ref.Kind == k.Kind
	}
	if !ours {
		return nil, fmt.Sprintf("node classes of kind %s are not known; only %s of %s is", ref.Kind, strings.Join(known, ", "), c.cloud)
	}
	kind := cmp.Or(ref.Kind, known[0])
	class := c.classes[kind+"/"+ref.Name]
	if class == nil {
		return nil, fmt.Sprintf("%s %s does not exist", kind, ref.Name)
	}
	c.countReserved(ctx, kind, class)
	types, err := c.market.Types(class, pool)
	if err != nil {
		return nil, err.Error()
	}
	return types, ""
}

// countReserved has the free capacity counted that is reserved for a class, once.
func (c *catalogues) countReserved(ctx context.Context, kind string, class client.Object) {
	key := kind + "/" + class.GetName()
	if c.counted[key] {
		return
	}
	c.counted[key] = true
	if err := c.market.CountReserved(ctx, class); err != nil {
		c.missing = append(c.missing, snapshot.Missing{
			What: "free capacity of the reservations of " + kind + " " + class.GetName(), Why: firstLine(err),
			Then: "reservations count as full, so that a plan launches nothing in them; request the right to read them",
		})
	}
}

// firstLine is an error for a note: joined errors have a line each.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
