package awsemu

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

// tagItems renders tags by key.
func tagItems(tags map[string]string) []tagItem {
	var items []tagItem
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		items = append(items, tagItem{Key: key, Value: tags[key]})
	}
	return items
}

// tagsFor reads the TagSpecification of a resource type; nil when there is none.
func tagsFor(f wire.Form, resource string) (map[string]string, error) {
	return tagsListed(f, "TagSpecification", resource)
}

// tagsListed is tagsFor for calls that spell the list in another way.
func tagsListed(f wire.Form, list, resource string) (map[string]string, error) {
	var tags map[string]string
	for _, spec := range f.List(list) {
		if spec.String("ResourceType") != resource {
			continue
		}
		for _, tag := range spec.List("Tag") {
			key := tag.String("Key")
			if err := checkTagKey(key); err != nil {
				return nil, err
			}
			if tags == nil {
				tags = map[string]string{}
			}
			tags[key] = tag.String("Value")
		}
	}
	if len(tags) > maxTags {
		return nil, tooManyTags()
	}
	return tags, nil
}

// maxTags is how many tags of the user a resource can have.
const maxTags = 50

func tooManyTags() error {
	return wire.Errorf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
}

func checkTagKey(key string) error {
	if key == "" {
		return wire.Errorf("InvalidParameterValue", "Tag keys must not be empty")
	}
	if strings.HasPrefix(strings.ToLower(key), "aws:") {
		return wire.Errorf("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use: %s", key)
	}
	return nil
}

// ec2Filter is one Filter.N of a describe call.
type ec2Filter struct {
	name     string
	patterns []string
}

// ec2FilterSet holds when all of its filters do.
type ec2FilterSet []ec2Filter

// ec2Filters reads the filters of a call on things that have tags: these can be requested too.
func ec2Filters(c *call, known ...string) (ec2FilterSet, error) {
	return readFilters(c, func(name string) bool {
		return name == "tag-key" || strings.HasPrefix(name, "tag:") && len(name) > len("tag:") || slices.Contains(known, name)
	})
}

// untaggedFilters reads the filters of a call on things that have no tags.
func untaggedFilters(c *call, known ...string) (ec2FilterSet, error) {
	return readFilters(c, func(name string) bool { return slices.Contains(known, name) })
}

func readFilters(c *call, known func(name string) bool) (ec2FilterSet, error) {
	var set ec2FilterSet
	for _, f := range c.Form.List("Filter") {
		name := f.String("Name")
		if !known(name) {
			return nil, wire.Errorf("InvalidParameterValue", "The filter '%s' is invalid", name)
		}
		patterns := f.Strings("Value")
		if len(patterns) == 0 {
			return nil, wire.Errorf("InvalidParameterValue", "The filter '%s' has no values", name)
		}
		set = append(set, ec2Filter{name: name, patterns: patterns})
	}
	return set, nil
}

// matchTags reports whether a resource with these tags and values passes. Values with several elements
// are joined by newlines.
func (s ec2FilterSet) matchTags(tags, values map[string]string) bool {
	for _, f := range s {
		var have []string
		if key, isTag := strings.CutPrefix(f.name, "tag:"); isTag {
			if value, found := tags[key]; found {
				have = []string{value}
			}
		} else if f.name == "tag-key" {
			have = slices.Collect(maps.Keys(tags))
		} else {
			have = strings.Split(values[f.name], "\n")
		}
		if !slices.ContainsFunc(have, f.allowsValue) {
			return false
		}
	}
	return true
}

func (f ec2Filter) allowsValue(value string) bool {
	return slices.ContainsFunc(f.patterns, func(pattern string) bool { return ec2Wildcard(pattern, value) })
}

// ec2Wildcard matches a value with a pattern in which * stands for anything, ? for one character and a
// backslash takes the meaning of the next. It costs O(len(pattern) * len(value)).
func ec2Wildcard(pattern, value string) bool {
	p, v := []rune(pattern), []rune(value)
	i, j, star, mark := 0, 0, -1, 0
	for j < len(v) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i+1 < len(p) && p[i] == '\\' && p[i+1] == v[j]:
			i += 2
			j++
		case i < len(p) && p[i] != '\\' && (p[i] == '?' || p[i] == v[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// ec2Page sorts a list by its key, which must be unique, and cuts the page that was requested. Without
// MaxResults a page has fallback elements, or all for 0. The token names the last key that was sent, so
// that what comes and goes between two pages moves nothing else.
func ec2Page[T any](c *call, list []T, key func(T) string, most, fallback int) (page []T, next string, err error) {
	limit := fallback
	if c.Form.Has("MaxResults") {
		limit = c.Form.Int("MaxResults", -1)
		if limit < 1 || limit > most {
			return nil, "", wire.Errorf("InvalidParameterValue", "Value (%s) for parameter maxResults is invalid. Expecting a value between 1 and %d.", c.Form.String("MaxResults"), most)
		}
	}
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	if token := c.Form.String("NextToken"); token != "" {
		last, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			return nil, "", wire.Errorf("InvalidNextToken", "The token '%s' is invalid", token)
		}
		start, _ := slices.BinarySearchFunc(list, string(last)+"\x00", func(e T, k string) int { return cmp.Compare(key(e), k) })
		list = list[start:]
	}
	if limit > 0 && len(list) > limit {
		next = base64.RawURLEncoding.EncodeToString([]byte(key(list[limit-1])))
		list = list[:limit]
	}
	return list, next, nil
}

// currentLag is how far a kind of thing is behind at the moment.
func (e *Emulator) currentLag(what string) time.Duration {
	return max(0, time.Duration(e.rules.Lag[what]))
}
