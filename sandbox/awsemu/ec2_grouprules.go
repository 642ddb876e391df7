package awsemu

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// GroupRule is a rule of a security group. No traffic flows here, so it is only stored.
type GroupRule struct {
	Egress      bool              `json:"egress,omitempty"`
	Protocol    string            `json:"protocol"`
	From        int               `json:"from"`
	To          int               `json:"to"`
	CIDR        string            `json:"cidr,omitempty"`
	CIDR6       string            `json:"cidr6,omitempty"`
	Group       string            `json:"group,omitempty"` // id of the group that traffic comes from or goes to
	Description string            `json:"description,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// sameTraffic compares what traffic two rules are about.
func (r GroupRule) sameTraffic(other GroupRule) bool {
	return r.Egress == other.Egress && r.Protocol == other.Protocol && r.From == other.From && r.To == other.To && r.CIDR == other.CIDR && r.CIDR6 == other.CIDR6 && r.Group == other.Group
}

type groupRuleItem struct {
	ID          string          `xml:"securityGroupRuleId"`
	GroupID     string          `xml:"groupId"`
	Owner       string          `xml:"groupOwnerId"`
	Egress      bool            `xml:"isEgress"`
	Protocol    string          `xml:"ipProtocol"`
	From        int             `xml:"fromPort"`
	To          int             `xml:"toPort"`
	CIDR        string          `xml:"cidrIpv4,omitempty"`
	CIDR6       string          `xml:"cidrIpv6,omitempty"`
	Referenced  *referencedItem `xml:"referencedGroupInfo,omitempty"`
	Description string          `xml:"description,omitempty"`
	Tags        []tagItem       `xml:"tagSet>item"`
}

type referencedItem struct {
	ID string `xml:"groupId"`
}

type groupRulesResponse struct {
	Return bool            `xml:"return"`
	Items  []groupRuleItem `xml:"securityGroupRuleSet>item"`
}

func (e *Emulator) groupRuleItem(g *SecurityGroup, id string) groupRuleItem {
	r := g.Rules[id]
	item := groupRuleItem{
		ID: id, GroupID: g.ID, Owner: e.fixture.Account, Egress: r.Egress, Protocol: r.Protocol, From: r.From, To: r.To, CIDR: r.CIDR, CIDR6: r.CIDR6, Description: r.Description, Tags: tagItems(r.Tags),
	}
	if r.Group != "" {
		item.Referenced = &referencedItem{r.Group}
	}
	return item
}

// requestedRules are the rules that a call describes by their traffic.
func requestedRules(c *call) []GroupRule {
	egress := strings.HasSuffix(c.Action, "Egress")
	var out []GroupRule
	for _, p := range append(c.Form.List("IpPermissions"), c.Form) {
		usual := GroupRule{Egress: egress, Protocol: p.String("IpProtocol"), From: p.Int("FromPort", -1), To: p.Int("ToPort", -1)}
		if cidr := p.String("CidrIp"); cidr != "" { // the short form, with one rule
			usual.CIDR = cidr
			out = append(out, usual)
		}
		for _, r := range p.List("IpRanges") {
			one := usual
			one.CIDR, one.Description = r.String("CidrIp"), r.String("Description")
			out = append(out, one)
		}
		for _, r := range p.List("Ipv6Ranges") {
			one := usual
			one.CIDR6, one.Description = r.String("CidrIpv6"), r.String("Description")
			out = append(out, one)
		}
		for _, r := range p.List("Groups") {
			one := usual
			one.Group, one.Description = r.String("GroupId"), r.String("Description")
			out = append(out, one)
		}
	}
	return out
}

func (e *Emulator) authorizeRules(c *call) (any, error) {
	g, err := e.requestedGroup(c)
	if err != nil {
		return nil, err
	}
	tags, err := tagsFor(c.Form, "security-group-rule")
	if err != nil {
		return nil, err
	}
	requested := requestedRules(c)
	for _, rule := range requested {
		for _, have := range g.Rules {
			if have.sameTraffic(rule) {
				return nil, wire.Errorf("InvalidPermission.Duplicate", "the specified rule \"peer: %s%s%s, %s, from port: %d, to port: %d, ALLOW\" already exists", rule.CIDR, rule.CIDR6, rule.Group, rule.Protocol, rule.From, rule.To)
			}
		}
	}
	response := groupRulesResponse{Return: true}
	rules := map[string]*GroupRule{}
	maps.Copy(rules, g.Rules)
	g.Rules = rules
	for _, rule := range requested {
		rule.Tags = maps.Clone(tags)
		id := e.nextID("sgr-")
		rules[id] = &rule
		response.Items = append(response.Items, e.groupRuleItem(g, id))
	}
	return response, nil
}

// revokeRules removes rules by id or by their traffic. The ones that a group is born with are not kept here, so that a rule
// which is not known by its traffic is no error.
func (e *Emulator) revokeRules(c *call) (any, error) {
	g, err := e.requestedGroup(c)
	if err != nil {
		return nil, err
	}
	ids, requested := c.Form.Strings("SecurityGroupRuleId"), requestedRules(c)
	for _, id := range ids {
		if _, found := g.Rules[id]; !found {
			return nil, groupRuleNotFound(id)
		}
	}
	left := maps.Clone(g.Rules)
	maps.DeleteFunc(left, func(id string, have *GroupRule) bool {
		return slices.Contains(ids, id) || slices.ContainsFunc(requested, have.sameTraffic)
	})
	g.Rules = left
	return returnResponse{Return: true}, nil
}

func groupRuleNotFound(id string) error {
	return wire.Errorf("InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '%s' does not exist", id)
}

func (e *Emulator) describeGroupRules(c *call) (any, error) {
	filters, err := ec2Filters(c, "group-id", "security-group-rule-id")
	if err != nil {
		return nil, err
	}
	ids := c.Form.Strings("SecurityGroupRuleId")
	var list []groupRuleItem
	for _, g := range e.ec2().Groups {
		for id, rule := range g.Rules {
			if isSelected(ids, id) && filters.matchTags(rule.Tags, map[string]string{"group-id": g.ID, "security-group-rule-id": id}) {
				list = append(list, e.groupRuleItem(g, id))
			}
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(list, func(r groupRuleItem) bool { return r.ID == id }) {
			return nil, groupRuleNotFound(id)
		}
	}
	page, next, err := ec2Page(c, list, func(r groupRuleItem) string { return r.ID }, 1000, 1000)
	return struct {
		Items []groupRuleItem `xml:"securityGroupRuleSet>item"`
		Next  string          `xml:"nextToken,omitempty"`
	}{page, next}, err
}

// groupRule finds a rule of any group.
func (e *Emulator) groupRule(id string) (*GroupRule, error) {
	for _, g := range e.ec2().Groups {
		if rule := g.Rules[id]; rule != nil {
			return rule, nil
		}
	}
	return nil, groupRuleNotFound(id)
}
