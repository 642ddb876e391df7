package discover

import (
	"maps"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// anyValue in place of the value of a tag matches every value.
const anyValue = "*"

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}

// tagFilters are the filters that all tags of a term give, in order. Values may hold the wildcards
// of EC2.
func tagFilters(tags awsv1.Tags) []ec2types.Filter {
	filters := make([]ec2types.Filter, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if tags[key] == anyValue {
			filters = append(filters, filter("tag-key", key))
			continue
		}
		filters = append(filters, filter("tag:"+key, tags[key]))
	}
	return filters
}

// subnetQueries are the calls that the terms need: all ids in one, each set of tags in its own. Where
// a term has both, the id wins. A term without either is left out: it would select everything.
func subnetQueries(terms []awsv1.SubnetSelectorTerm) [][]ec2types.Filter {
	var ids []string
	var queries [][]ec2types.Filter
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case len(t.Tags) > 0:
			queries = append(queries, tagFilters(t.Tags))
		}
	}
	return withValues(queries, "subnet-id", ids)
}

// groupQueries do the same for security groups; here names are merged as well.
func groupQueries(terms []awsv1.SecurityGroupSelectorTerm) [][]ec2types.Filter {
	var ids, names []string
	var queries [][]ec2types.Filter
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		case len(t.Tags) > 0:
			queries = append(queries, tagFilters(t.Tags))
		}
	}
	return withValues(withValues(queries, "group-name", names), "group-id", ids)
}

// withValues adds a query for values of one filter, if there are any.
func withValues(queries [][]ec2types.Filter, name string, values []string) [][]ec2types.Filter {
	if len(values) == 0 {
		return queries
	}
	return append(queries, []ec2types.Filter{filter(name, values...)})
}
