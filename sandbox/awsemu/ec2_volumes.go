package awsemu

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

type volumeItem struct {
	ID          string           `xml:"volumeId"`
	Size        int              `xml:"size"`
	Snapshot    string           `xml:"snapshotId"`
	Zone        string           `xml:"availabilityZone"`
	Status      string           `xml:"status"`
	Created     string           `xml:"createTime"`
	Attachments []attachmentItem `xml:"attachmentSet>item"`
	Type        string           `xml:"volumeType"`
	IOPS        int              `xml:"iops,omitempty"`
	Throughput  int              `xml:"throughput,omitempty"`
	Encrypted   bool             `xml:"encrypted"`
	MultiAttach bool             `xml:"multiAttachEnabled"`
	Tags        []tagItem        `xml:"tagSet>item"`
}

// attachmentItem is a volume at an instance, and the response to attaching and detaching.
type attachmentItem struct {
	Volume   string `xml:"volumeId"`
	Instance string `xml:"instanceId"`
	Device   string `xml:"device"`
	Status   string `xml:"status"`
	Time     string `xml:"attachTime"`
	Delete   bool   `xml:"deleteOnTermination"`
}

type volumesResponse struct {
	Items []volumeItem `xml:"volumeSet>item"`
	Next  string       `xml:"nextToken,omitempty"`
}

func attachmentOf(v *Volume, status string) attachmentItem {
	return attachmentItem{Volume: v.ID, Instance: v.Instance, Device: v.Device, Status: status, Time: wire.Time(v.Attached), Delete: v.Delete}
}

func volumeItemOf(v *Volume) volumeItem {
	item := volumeItem{
		ID: v.ID, Size: v.SizeGiB, Snapshot: v.Snapshot, Zone: v.Zone, Status: v.state(), Created: wire.Time(v.Created), Type: v.Type,
		IOPS: v.IOPS, Throughput: v.Throughput, Encrypted: v.Encrypted, Tags: tagItems(v.Tags),
	}
	if v.Instance != "" {
		item.Attachments = []attachmentItem{attachmentOf(v, "attached")}
	}
	return item
}

// volumeNamed finds a volume.
func (e *Emulator) volumeNamed(id string) (*Volume, error) {
	if v := e.ec2().Volumes[id]; v != nil {
		return v, nil
	}
	return nil, wire.Errorf("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
}

func (e *Emulator) describeVolumes(c *call) (any, error) {
	filters, err := ec2Filters(c, "volume-id", "availability-zone", "status", "size", "volume-type", "encrypted", "snapshot-id",
		"attachment.instance-id", "attachment.device", "attachment.status", "attachment.delete-on-termination")
	if err != nil {
		return nil, err
	}
	ids := c.Form.Strings("VolumeId")
	if len(ids) > 0 && c.Form.Has("MaxResults") {
		return nil, maxResultsWithIDs("volumesSet")
	}
	for _, id := range ids {
		if _, err := e.volumeNamed(id); err != nil {
			return nil, err
		}
	}
	var list []*Volume
	for _, v := range e.ec2().Volumes {
		values := map[string]string{
			"volume-id": v.ID, "availability-zone": v.Zone, "status": v.state(), "size": itoa(v.SizeGiB), "volume-type": v.Type,
			"encrypted": strconv.FormatBool(v.Encrypted), "snapshot-id": v.Snapshot,
		}
		if v.Instance != "" {
			values["attachment.instance-id"], values["attachment.device"], values["attachment.status"] = v.Instance, v.Device, "attached"
			values["attachment.delete-on-termination"] = strconv.FormatBool(v.Delete)
		}
		if isSelected(ids, v.ID) && filters.matchTags(v.Tags, values) {
			list = append(list, v)
		}
	}
	page, next, err := ec2Page(c, list, func(v *Volume) string { return v.ID }, 1000, 0)
	response := volumesResponse{Next: next}
	for _, v := range page {
		response.Items = append(response.Items, volumeItemOf(v))
	}
	return response, err
}

func (e *Emulator) createVolume(c *call) (any, error) {
	tags, err := tagsFor(c.Form, "volume")
	if err != nil {
		return nil, err
	}
	v := &Volume{
		ID: e.nextID("vol-"), Zone: c.Form.String("AvailabilityZone"), Created: c.now, Tags: tags,
		SizeGiB: usualRootGiB, // of a snapshot, which says no size here
	}
	v.applyLaunchSettings(sizedForm(c.Form))
	switch {
	case e.zoneIndex(v.Zone) < 0:
		return nil, wire.Errorf("InvalidZone.NotFound", "The zone '%s' does not exist.", v.Zone)
	case !c.Form.Has("Size") && v.Snapshot == "":
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter size/snapshot")
	case v.SizeGiB < 1 || v.SizeGiB > 65536:
		return nil, invalidValue("A volume of %d GiB is not possible", v.SizeGiB)
	case v.Type != "" && !slices.Contains(volumeTypes(), v.Type):
		return nil, wire.Errorf("UnknownVolumeType", "Unsupported volume type '%s' for volume creation.", v.Type)
	}
	v.setDefaults()
	e.ec2().Volumes[v.ID] = v
	return volumeItemOf(v), nil
}

// sizedForm shows the parameters of CreateVolume as a launch names them.
func sizedForm(f wire.Form) wire.Form {
	values := map[string][]string{}
	for key, value := range f.Map() {
		if key == "Size" {
			key = "VolumeSize"
		}
		values[key] = []string{value}
	}
	return wire.NewForm(values)
}

func volumeTypes() []string { return []string{"standard", "io1", "io2", "gp2", "gp3", "sc1", "st1"} }

func (e *Emulator) deleteVolume(c *call) (any, error) {
	v, err := e.volumeNamed(c.Form.String("VolumeId"))
	if err != nil {
		return nil, err
	}
	if v.Instance != "" {
		return nil, inUse("Volume %s is currently attached to %s", v.ID, v.Instance)
	}
	delete(e.ec2().Volumes, v.ID)
	return returnResponse{Return: true}, nil
}

func inUse(format string, args ...any) error { return wire.Errorf("VolumeInUse", format, args...) }

func (e *Emulator) attachVolume(c *call) (any, error) {
	v, err := e.volumeNamed(c.Form.String("VolumeId"))
	if err != nil {
		return nil, err
	}
	list, err := e.instancesWithIDs(c, []string{c.Form.String("InstanceId")})
	if err != nil {
		return nil, err
	}
	i, device := list[0], c.Form.String("Device")
	switch {
	case v.Instance != "":
		return nil, inUse("%s is already attached to an instance", v.ID)
	case i.Zone != v.Zone:
		return nil, wire.Errorf("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", v.ID, i.ID)
	case i.State != stateRunning && i.State != stateStopped:
		return nil, wire.Errorf("IncorrectState", "Instance '%s' is not 'running'.", i.ID)
	case slices.ContainsFunc(e.attachedTo(i), func(other *Volume) bool { return other.Device == device }):
		return nil, invalidValue("Invalid value '%s' for unixDevice. Attachment point %s is already in use", device, device)
	}
	v.attach(i, device, c.now)
	return attachmentOf(v, "attached"), nil
}

func (e *Emulator) detachVolume(c *call) (any, error) {
	v, err := e.volumeNamed(c.Form.String("VolumeId"))
	if err != nil {
		return nil, err
	}
	if instance := c.Form.String("InstanceId"); v.Instance == "" || instance != "" && instance != v.Instance {
		return nil, wire.Errorf("IncorrectState", "Volume '%s' is in the '%s' state.", v.ID, v.state())
	}
	response := attachmentOf(v, "detached")
	e.detach(v)
	return response, nil
}
