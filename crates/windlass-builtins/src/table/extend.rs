//! Adding resources of one table to another.

use windlass_schema::types::{StructId, Type};

use crate::resource::{Group, Kind, Resource, Subresource, Table};

impl Table {
    /// Adds the resources of another table that `wanted` selects, with their kinds, group versions and types. Types that
    /// this table has already are not added.
    pub fn extend(&mut self, other: &Self, wanted: impl Fn(&Resource) -> bool) {
        let resources: Vec<&Resource> = other.resources.iter().filter(|resource| wanted(resource)).collect();
        if resources.is_empty() {
            return;
        }
        let numbers = self.add_types(other);
        let number = |id: StructId| numbers[id.0 as usize];
        let is_wanted = |kind: &&Kind| {
            let name = kind.kind.strip_suffix("List").unwrap_or(&kind.kind);
            let is_own = |resource: &&Resource| {
                (&resource.group, &resource.version, &*resource.kind) == (&kind.group, &kind.version, name)
            };
            resources.iter().any(is_own)
        };
        let kinds = other.kinds.iter().filter(is_wanted);
        self.kinds.extend(kinds.map(|kind| Kind { ty: number(kind.ty), ..kind.clone() }));
        for resource in resources {
            let at = self.groups.iter().position(|group| group.name == resource.group).unwrap_or_else(|| {
                self.groups.push(Group { name: resource.group.clone(), versions: Vec::new() });
                self.groups.len() - 1
            });
            let versions = &mut self.groups[at].versions;
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
            let subresource = |of: &Subresource| Subresource { ty: of.ty.map(number), ..of.clone() };
            self.resources.push(Resource {
                ty: number(resource.ty),
                subresources: resource.subresources.iter().map(subresource).collect(),
                ..resource.clone()
            });
        }
    }

    /// Adds the types of another table that are missing here. Returns their places, by their numbers there.
    fn add_types(&mut self, other: &Self) -> Vec<StructId> {
        let own = &mut self.types.structs;
        let mut next = own.len();
        let places: Vec<usize> = other
            .types
            .structs
            .iter()
            .map(|structure| {
                own.iter().position(|have| have.name == structure.name).unwrap_or_else(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        let numbers: Vec<StructId> = places.iter().map(|place| StructId(*place as u32)).collect();
        let known = own.len();
        for (structure, place) in other.types.structs.iter().zip(places) {
            if place >= known {
                let mut structure = structure.clone();
                for field in &mut structure.fields {
                    renumber(&mut field.ty, &numbers);
                }
                own.push(structure);
            }
        }
        numbers
    }
}

fn renumber(ty: &mut Type, numbers: &[StructId]) {
    match ty {
        Type::Struct(id) => *id = numbers[id.0 as usize],
        Type::List(element) | Type::Map(element) => renumber(element, numbers),
        Type::Scalar(_) => {}
    }
}
