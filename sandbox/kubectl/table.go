package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// Table returns what kubectl get shows of all objects of a kind, as the API server renders it.
func (c *Client) Table(ctx context.Context, kind schema.GroupVersionKind) (*metav1.Table, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("%s is no kind of this API server: %w", kind, err)
	}
	resource := mapping.Resource
	text, err := c.discovery.RESTClient().Get().
		AbsPath("/apis", resource.Group, resource.Version, resource.Resource).
		SetHeader("Accept", asTable).
		Do(ctx).Raw() // DoRaw would lose warnings
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", resource.Resource, err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(text, table); err != nil {
		return nil, fmt.Errorf("get %s: %w", resource.Resource, err)
	}
	return table, nil
}

// Print writes a table as kubectl get does; wide includes the columns of -o wide.
func Print(w io.Writer, table *metav1.Table, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	shown := func(i int) bool { return wide || table.ColumnDefinitions[i].Priority == 0 }
	var cells []string
	for i, column := range table.ColumnDefinitions {
		if shown(i) {
			cells = append(cells, strings.ToUpper(column.Name))
		}
	}
	fmt.Fprintln(out, strings.Join(cells, "\t"))
	for _, row := range table.Rows {
		cells = cells[:0]
		for i := range table.ColumnDefinitions {
			switch {
			case !shown(i):
			case i >= len(row.Cells) || row.Cells[i] == nil:
				cells = append(cells, "")
			default:
				cells = append(cells, fmt.Sprint(row.Cells[i]))
			}
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	return out.Flush()
}
