package bench

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// profile is what is of use here of a profile that runtime/pprof wrote.
type profile struct {
	samples   []sample
	texts     []string
	functions map[uint64]uint64   // id to the text of the name
	locations map[uint64][]uint64 // id to functions, inlined ones included
}

// sample is a stack and what was measured there.
type sample struct {
	locations []uint64
	values    []uint64
	labels    map[uint64]uint64 // text to text
}

// Fields of the messages of github.com/google/pprof/proto/profile.proto.
const (
	profileSample, profileLocation, profileFunction, profileText = 2, 4, 5, 6

	sampleLocation, sampleValue, sampleLabel = 1, 2, 3
	labelKey, labelText                      = 1, 2
	anyID                                    = 1
	locationLine, lineFunction               = 4, 1
	functionName                             = 2
)

var errProfile = errors.New("the profile cannot be read")

// readProfile reads what runtime/pprof writes. Only what is needed is decoded, with what Kubernetes
// brings along: github.com/google/pprof would be one more module.
func readProfile(compressed []byte) (*profile, error) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	p := &profile{functions: map[uint64]uint64{}, locations: map[uint64][]uint64{}}
	return p, decodeFields(raw, func(number int, _ uint64, body []byte) error {
		switch number {
		case profileSample:
			s, err := readSample(body)
			p.samples = append(p.samples, s)
			return err
		case profileText:
			p.texts = append(p.texts, string(body))
		case profileFunction:
			ids, err := decodeNumbers(body)
			p.functions[ids[anyID]] = ids[functionName]
			return err
		case profileLocation:
			return p.readLocation(body)
		}
		return nil
	})
}

func readSample(body []byte) (sample, error) {
	s := sample{labels: map[uint64]uint64{}}
	return s, decodeFields(body, func(number int, n uint64, body []byte) error {
		switch number {
		case sampleLocation:
			return list(&s.locations, n, body)
		case sampleValue:
			return list(&s.values, n, body)
		case sampleLabel:
			label, err := decodeNumbers(body)
			s.labels[label[labelKey]] = label[labelText]
			return err
		}
		return nil
	})
}

func (p *profile) readLocation(body []byte) error {
	var id uint64
	var functions []uint64
	err := decodeFields(body, func(number int, n uint64, body []byte) error {
		switch number {
		case anyID:
			id = n
		case locationLine:
			line, err := decodeNumbers(body)
			functions = append(functions, line[lineFunction])
			return err
		}
		return nil
	})
	p.locations[id] = functions
	return err
}

func (p *profile) stringAt(i uint64) string {
	if i < uint64(len(p.texts)) {
		return p.texts[i]
	}
	return ""
}

// sampleLabel of a sample, or nothing.
func (p *profile) sampleLabel(s sample, name string) string {
	for key, value := range s.labels {
		if p.stringAt(key) == name {
			return p.stringAt(value)
		}
	}
	return ""
}

// walkStack calls back with the functions of a sample, the innermost first.
func (p *profile) walkStack(s sample, frame func(function string)) {
	for _, location := range s.locations {
		for _, function := range p.locations[location] {
			frame(p.stringAt(p.functions[function]))
		}
	}
}

// decodeFields calls back for every field of a message: with a number, or with the bytes of what has a length.
func decodeFields(message []byte, field func(number int, n uint64, body []byte) error) error {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return errProfile
		}
		message = message[length:]
		var n uint64
		var body []byte
		switch kind {
		case protowire.VarintType:
			n, length = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			body, length = protowire.ConsumeBytes(message)
		default:
			length = protowire.ConsumeFieldValue(number, kind, message)
		}
		if length < 0 {
			return errProfile
		}
		if err := field(int(number), n, body); err != nil {
			return err
		}
		message = message[length:]
	}
	return nil
}

// decodeNumbers of a message by field.
func decodeNumbers(message []byte) (map[int]uint64, error) {
	out := map[int]uint64{}
	return out, decodeFields(message, func(number int, n uint64, _ []byte) error {
		out[number] = n
		return nil
	})
}

// list adds the elements of a repeated field: one at a time, or many in a body.
func list(into *[]uint64, n uint64, body []byte) error {
	if body == nil {
		*into = append(*into, n)
		return nil
	}
	for len(body) > 0 {
		n, length := protowire.ConsumeVarint(body)
		if length < 0 {
			return errProfile
		}
		*into = append(*into, n)
		body = body[length:]
	}
	return nil
}
