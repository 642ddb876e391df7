package snapshot

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dovetail-sh/dovetail/internal/near"
)

// anyValue stands for all instance types, zones or capacity types.
const anyValue = "*"

// maxPrice is what no instance costs an hour: above it a price was written in another unit.
const maxPrice = 10_000

// ReadPrices reads a price file: CSV or YAML, see docs/reference/price-file.md. The keys of the result are those of
// inspect.WhatIf. The error has a line for each fault, with its line number.
func ReadPrices(text []byte) (map[string]float64, error) {
	p := &priceReader{prices: map[string]float64{}, lines: map[string]int{}}
	if looksLikeYAML(text) {
		p.yaml(text)
	} else {
		p.csv(text)
	}
	if len(p.faults) == 0 && len(p.prices) == 0 {
		return nil, errors.New("it has no price")
	}
	if err := errors.Join(p.faults...); err != nil {
		return nil, err
	}
	return p.prices, nil
}

// looksLikeYAML decides by the first line with contents: the key of a document in YAML, or the names of columns.
func looksLikeYAML(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		return bytes.ContainsAny(line, ":{") || bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("-"))
	}
	return false
}

type priceReader struct {
	prices map[string]float64
	lines  map[string]int // where a price was found
	faults []error
}

func (p *priceReader) fault(line int, format string, args ...any) {
	const enough = 20
	if len(p.faults) < enough {
		p.faults = append(p.faults, fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...)))
	}
}

// columns of a price file, in order.
func priceColumns() []string { return []string{"instanceType", "zone", "capacityType", "price"} }

// add records one price.
func (p *priceReader) add(line int, row map[string]string) {
	parts := make([]string, 0, 3)
	for _, column := range priceColumns()[:3] {
		value := strings.TrimSpace(row[column])
		if value == "" {
			value = anyValue
		}
		if strings.ContainsAny(value, "/ ") || strings.Contains(value, anyValue) && value != anyValue {
			p.fault(line, "%s %q is no name; want one, or * for all", column, value)
			return
		}
		parts = append(parts, value)
	}
	usd, err := strconv.ParseFloat(strings.TrimSpace(row["price"]), 64)
	switch {
	case err != nil || math.IsNaN(usd):
		p.fault(line, "price %q is not a number; want USD an hour, such as 0.096", row["price"])
		return
	case usd <= 0 || usd > maxPrice:
		p.fault(line, "price %v is not above 0 and up to %d USD an hour", usd, maxPrice)
		return
	}
	key := strings.Join(parts, "/")
	if before, twice := p.lines[key]; twice {
		p.fault(line, "%s has a price in line %d already", key, before)
		return
	}
	p.prices[key], p.lines[key] = usd, line
}

// csv reads rows below a line with the names of columns.
func (p *priceReader) csv(text []byte) {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment, r.FieldsPerRecord, r.TrimLeadingSpace = '#', -1, true
	var header []string
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if bad, is := errors.AsType[*csv.ParseError](err); is {
			p.fault(bad.Line, "%w", bad.Err)
			return
		} else if err != nil {
			p.fault(1, "%w", err)
			return
		}
		line, _ := r.FieldPos(0)
		if header == nil {
			if header = p.header(line, record); header == nil {
				return
			}
			continue
		}
		if len(record) != len(header) {
			p.fault(line, "%d fields, want %d: %s", len(record), len(header), strings.Join(header, ","))
			continue
		}
		row := map[string]string{}
		for i, column := range header {
			row[column] = record[i]
		}
		p.add(line, row)
	}
}

// header reads the names of columns, in any order.
func (p *priceReader) header(line int, record []string) []string {
	var header []string
	seen := map[string]bool{}
	for _, name := range record {
		name = strings.TrimSpace(name)
		if !p.knows(line, "column", name) {
			return nil
		}
		if seen[name] {
			p.fault(line, "column %s is there twice", name)
			return nil
		}
		seen[name] = true
		header = append(header, name)
	}
	if !seen["price"] {
		p.fault(line, "no column price; want a first line %s", strings.Join(priceColumns(), ","))
		return nil
	}
	return header
}

func (p *priceReader) knows(line int, what, name string) bool {
	if slices.Contains(priceColumns(), name) {
		return true
	}
	p.fault(line, "%s %q is not known%s; want %s", what, name, near.Hint(name, priceColumns()), strings.Join(priceColumns(), ", "))
	return false
}

// yaml reads a list below the key prices.
func (p *priceReader) yaml(text []byte) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		p.faults = append(p.faults, errors.New(strings.TrimPrefix(err.Error(), "yaml: ")))
		return
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		p.fault(max(1, document.Line), "want a map with the key prices")
		return
	}
	root := document.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		switch {
		case key.Value != "prices":
			p.fault(key.Line, "key %q is not known; want prices", key.Value)
		case value.Kind != yaml.SequenceNode:
			p.fault(value.Line, "prices is no list")
		default:
			for _, item := range value.Content {
				p.item(item)
			}
		}
	}
}

func (p *priceReader) item(item *yaml.Node) {
	if item.Kind != yaml.MappingNode {
		p.fault(item.Line, "want a map with %s", strings.Join(priceColumns(), ", "))
		return
	}
	row := map[string]string{}
	for i := 0; i+1 < len(item.Content); i += 2 {
		key, value := item.Content[i], item.Content[i+1]
		if !p.knows(key.Line, "key", key.Value) {
			return
		}
		if value.Kind != yaml.ScalarNode {
			p.fault(value.Line, "%s is not a single value", key.Value)
			return
		}
		if _, twice := row[key.Value]; twice {
			p.fault(key.Line, "%s is there twice", key.Value)
			return
		}
		row[key.Value] = value.Value
	}
	p.add(item.Line, row)
}

// setPrices gives offerings other prices. The most specific key counts. What had no price can be launched with one.
func (f *File) setPrices(prices map[string]float64) error {
	if len(prices) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(prices)) {
		usd := prices[key]
		if strings.Count(key, "/") != 2 || !(usd > 0 && usd <= maxPrice) {
			return fmt.Errorf("price %q: %v: want INSTANCE-TYPE/ZONE/CAPACITY-TYPE, where * stands for all, and USD an hour above 0 and up to %d", key, usd, maxPrice)
		}
	}
	f.ownCatalogues()
	matched := false
	f.eachOffering(func(t *InstanceType, o *Offering) {
		usd, found := priceFrom(prices, t.Name, o.Zone, o.CapacityType)
		if !found {
			return
		}
		matched = true
		if o.Price == 0 && t.Unsuited == "" && !o.Out {
			o.Available = true
		}
		o.Price = usd
	})
	if !matched {
		return errors.New("no price is one of an instance type, zone and capacity type of the cluster; see `kubectl get nodes -L node.kubernetes.io/instance-type,topology.kubernetes.io/zone`")
	}
	return nil
}

// priceFrom finds the most specific price: an instance type is more specific than a zone, which is more specific than a
// capacity type.
func priceFrom(prices map[string]float64, instanceType, zone, capacityType string) (float64, bool) {
	for _, t := range [...]string{instanceType, anyValue} {
		for _, z := range [...]string{zone, anyValue} {
			for _, c := range [...]string{capacityType, anyValue} {
				if usd, found := prices[t+"/"+z+"/"+c]; found {
					return usd, true
				}
			}
		}
	}
	return 0, false
}
