package awsemu

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func (e *Emulator) createTags(c *call) (any, error) {
	set := map[string]string{}
	for _, tag := range c.Form.List("Tag") {
		if err := checkTagKey(tag.String("Key")); err != nil {
			return nil, err
		}
		set[tag.String("Key")] = tag.String("Value")
	}
	if len(set) == 0 {
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter Tag")
	}
	return e.changeTags(c, func(tags map[string]string) { maps.Copy(tags, set) })
}

func (e *Emulator) deleteTags(c *call) (any, error) {
	var gone []string
	for _, tag := range c.Form.List("Tag") {
		gone = append(gone, tag.String("Key"))
	}
	return e.changeTags(c, func(tags map[string]string) {
		maps.DeleteFunc(tags, func(key, _ string) bool {
			return !strings.HasPrefix(key, "aws:") && (len(gone) == 0 || slices.Contains(gone, key))
		})
	})
}

// changeTags applies a change to the tags of every resource of a call, or of none. Those of instances
// are seen after the lag.
func (e *Emulator) changeTags(c *call, change func(map[string]string)) (any, error) {
	ids := c.Form.Strings("ResourceId")
	if len(ids) == 0 {
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter ResourceId")
	}
	type edit struct {
		instance *Instance
		tags     *map[string]string
		after    map[string]string
	}
	var edits []edit
	for _, id := range ids {
		tags, err := e.tagsOf(c, id)
		if err != nil {
			return nil, err
		}
		one := edit{instance: e.ec2().Instances[id], tags: tags, after: map[string]string{}}
		maps.Copy(one.after, *tags)
		if one.instance != nil {
			for _, earlier := range one.instance.TagChanges {
				earlier.apply(one.after)
			}
		}
		change(one.after)
		mine := 0
		for key := range one.after {
			if !strings.HasPrefix(key, "aws:") {
				mine++
			}
		}
		if mine > maxTags {
			return nil, tooManyTags()
		}
		edits = append(edits, one)
	}
	lag := e.currentLag("tags")
	for _, one := range edits {
		if one.instance == nil || lag == 0 && len(one.instance.TagChanges) == 0 {
			*one.tags = one.after
			continue
		}
		one.instance.changeTagsAt(c.now.Add(lag), one.after)
	}
	return returnResponse{Return: true}, nil
}

// changeTagsAt queues what is needed to reach the wanted tags.
func (i *Instance) changeTagsAt(at time.Time, want map[string]string) {
	have := maps.Clone(i.Tags)
	if have == nil {
		have = map[string]string{}
	}
	for _, earlier := range i.TagChanges {
		earlier.apply(have)
		if earlier.At.After(at) {
			at = earlier.At // changes arrive in the order they were made
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, found := have[key]; !found || value != want[key] {
			i.TagChanges = append(i.TagChanges, TagChange{At: at, Key: key, Value: want[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if _, kept := want[key]; !kept {
			i.TagChanges = append(i.TagChanges, TagChange{At: at, Key: key, Delete: true})
		}
	}
}

func (t TagChange) apply(tags map[string]string) {
	if t.Delete {
		delete(tags, t.Key)
	} else {
		tags[t.Key] = t.Value
	}
}

// tagsOf finds the tags of any resource.
func (e *Emulator) tagsOf(c *call, id string) (*map[string]string, error) {
	s := e.ec2()
	prefix, _, _ := strings.Cut(id, "-")
	switch prefix {
	case "i":
		list, err := e.instancesWithIDs(c, []string{id})
		if err != nil {
			return nil, err
		}
		return &list[0].Tags, nil
	case "subnet":
		if r := s.Subnets[id]; r != nil {
			return &r.Tags, nil
		}
		return nil, subnetNotFound(id)
	case "sg":
		if r := s.Groups[id]; r != nil {
			return &r.Tags, nil
		}
		return nil, groupNotFound(id)
	case "sgr":
		r, err := e.groupRule(id)
		if err != nil {
			return nil, err
		}
		return &r.Tags, nil
	case "ami":
		if r := s.Images[id]; r != nil {
			return &r.Tags, nil
		}
		return nil, imageNotFound(id)
	case "lt":
		t, err := e.templateWithID(c, id)
		if err != nil {
			return nil, err
		}
		return &t.Tags, nil
	case "cr":
		if r := s.Reservations[id]; r != nil {
			return &r.Tags, nil
		}
		return nil, reservationNotFound(id)
	case "eni":
		n, err := e.interfaceNamed(c, id)
		if err != nil {
			return nil, err
		}
		return &n.Tags, nil
	case "sir":
		i, err := e.spotRequestOf(c, id)
		if err != nil {
			return nil, err
		}
		return &i.SpotTags, nil
	case "vol":
		v, err := e.volumeNamed(id)
		if err != nil {
			return nil, err
		}
		return &v.Tags, nil
	case "pg":
		if r := s.Placements[id]; r != nil {
			return &r.Tags, nil
		}
	}
	return nil, wire.Errorf("InvalidID", "The ID '%s' is not valid", id)
}

type tagOfItem struct {
	ID    string `xml:"resourceId"`
	Kind  string `xml:"resourceType"`
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type tagsResponse struct {
	Items []tagOfItem `xml:"tagSet>item"`
	Next  string      `xml:"nextToken,omitempty"`
}

func (e *Emulator) describeTags(c *call) (any, error) {
	filters, err := ec2Filters(c, "key", "value", "resource-id", "resource-type")
	if err != nil {
		return nil, err
	}
	var list []tagOfItem
	for id, tags := range e.allTags(c.now) {
		prefix, _, _ := strings.Cut(id, "-")
		kind := resourceKind(prefix)
		for key, value := range tags {
			one := map[string]string{key: value} // tag:x requests this tag, not for its neighbours
			if filters.matchTags(one, map[string]string{"key": key, "value": value, "resource-id": id, "resource-type": kind}) {
				list = append(list, tagOfItem{ID: id, Kind: kind, Key: key, Value: value})
			}
		}
	}
	page, next, err := ec2Page(c, list, func(t tagOfItem) string { return t.ID + "\x00" + t.Key }, 1000, 1000)
	return tagsResponse{Items: page, Next: next}, err
}

// allTags is the tags of every resource that can be seen, by id.
func (e *Emulator) allTags(now time.Time) map[string]map[string]string {
	s, all := e.ec2(), map[string]map[string]string{}
	for id, i := range s.Instances {
		if !now.Before(i.Visible) {
			all[id] = i.Tags
			if i.SpotRequest != "" {
				all[i.SpotRequest] = i.SpotTags
			}
		}
	}
	for id, t := range s.Templates {
		if !now.Before(t.Visible) {
			all[id] = t.Tags
		}
	}
	for id, r := range s.Subnets {
		all[id] = r.Tags
	}
	for id, r := range s.Groups {
		all[id] = r.Tags
	}
	for id, r := range s.Images {
		all[id] = r.Tags
	}
	for id, r := range s.Reservations {
		all[id] = r.Tags
	}
	for _, n := range e.visibleInterfaces(now) {
		all[n.NetworkInterface.ID] = n.NetworkInterface.Tags
	}
	for id, v := range s.Volumes {
		all[id] = v.Tags
	}
	for id, r := range s.Placements {
		all[id] = r.Tags
	}
	return all
}
