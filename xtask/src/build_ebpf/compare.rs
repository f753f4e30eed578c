//! Holds two objects against each other: instructions, relocations, maps.
//!
//! Everything that the kernel or the loader reads is compared byte for byte: code, data, map
//! definitions, BTF (which describes maps and functions) and the relocations into them.
//! Symbol and string tables may be laid out differently; names count where they are used.

use anyhow::Context as _;
use object::read::elf::{ElfFile64, SectionHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, elf};
use std::collections::BTreeMap;

/// Bytes of one BPF instruction (RFC 9669 section 3.1).
const INSTRUCTION_BYTES: usize = 8;

/// Describes the first difference between the prebuilt object and the fresh one.
///
/// # Errors
/// When one of them is not readable.
pub(crate) fn first_difference(prebuilt: &[u8], fresh: &[u8]) -> anyhow::Result<Option<String>> {
    let prebuilt = Contents::read(prebuilt).context("the prebuilt object")?;
    let fresh = Contents::read(fresh).context("the fresh object")?;
    Ok(prebuilt.difference(&fresh))
}

/// What counts in an object.
struct Contents {
    sections: BTreeMap<String, Section>,
}

#[derive(PartialEq, Eq)]
struct Section {
    is_code: bool,
    bytes: Vec<u8>,
    bytes_in_memory: u64,
    relocations: Vec<Relocation>,
    /// Functions and maps: offset to name.
    symbols: BTreeMap<u64, String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Relocation {
    offset: u64,
    kind: u32,
    target: String,
}

impl Contents {
    fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(bytes)?;
        let mut sections = BTreeMap::new();
        for section in file.sections() {
            let header = section.elf_section_header();
            let flags = header.sh_flags(LittleEndian);
            let name = section.name()?.to_owned();
            let is_read = flags & u64::from(elf::SHF_ALLOC) != 0 || name.starts_with(".BTF");
            if !is_read || header.sh_type(LittleEndian) == elf::SHT_REL {
                continue;
            }
            let symbols = file.symbols().filter(|symbol| {
                symbol.section_index() == Some(section.index()) && symbol.is_definition()
            });
            let symbols = symbols
                .map(|symbol| Ok((symbol.address(), symbol.name()?.to_owned())))
                .collect::<anyhow::Result<_>>()?;
            let relocations = section
                .relocations()
                .map(|(offset, relocation)| {
                    let object::RelocationFlags::Elf { r_type: kind } = relocation.flags() else {
                        anyhow::bail!("{name}: a relocation without an ELF type");
                    };
                    let target = target(&file, relocation.target())?;
                    Ok(Relocation {
                        offset,
                        kind,
                        target,
                    })
                })
                .collect::<anyhow::Result<_>>()
                .with_context(|| format!("section {name}"))?;
            let contents = Section {
                is_code: flags & u64::from(elf::SHF_EXECINSTR) != 0,
                bytes: section.data()?.to_owned(),
                bytes_in_memory: section.size(),
                relocations,
                symbols,
            };
            sections.insert(name, contents);
        }
        Ok(Self { sections })
    }

    fn difference(&self, fresh: &Self) -> Option<String> {
        for name in self.sections.keys().chain(fresh.sections.keys()) {
            match (self.sections.get(name), fresh.sections.get(name)) {
                (Some(_), None) => return Some(format!("section {name} is in the prebuilt alone")),
                (None, Some(_)) => {
                    return Some(format!("section {name} is in the fresh one alone"));
                }
                _ => {}
            }
        }
        // Code first: other sections mostly differ because of it.
        let (code, other): (Vec<_>, Vec<_>) = self
            .sections
            .iter()
            .partition(|(_, section)| section.is_code);
        code.into_iter().chain(other).find_map(|(name, section)| {
            let difference = section.difference(&fresh.sections[name])?;
            Some(format!("section {name}, {difference}"))
        })
    }
}

impl Section {
    fn difference(&self, fresh: &Self) -> Option<String> {
        let unit = if self.is_code { INSTRUCTION_BYTES } else { 1 };
        let (ours, theirs) = (self.bytes.chunks(unit), fresh.bytes.chunks(unit));
        if let Some(index) = ours.zip(theirs).position(|(ours, theirs)| ours != theirs) {
            let at = |section: &Self| {
                let end = (index * unit + 16.max(unit)).min(section.bytes.len());
                hex::encode(&section.bytes[index * unit..end])
            };
            let what = if self.is_code { "instruction" } else { "byte" };
            return Some(format!(
                "{what} {index}{}: prebuilt {}, fresh {}",
                self.around((index * unit) as u64),
                at(self),
                at(fresh)
            ));
        }
        if (self.bytes.len(), self.bytes_in_memory) != (fresh.bytes.len(), fresh.bytes_in_memory) {
            return Some(format!(
                "length: prebuilt {} bytes, fresh {}",
                self.bytes_in_memory, fresh.bytes_in_memory
            ));
        }
        let longest = self.relocations.len().max(fresh.relocations.len());
        for index in 0..longest {
            let (ours, theirs) = (self.relocations.get(index), fresh.relocations.get(index));
            if ours != theirs {
                return Some(format!(
                    "relocation {index}: prebuilt {ours:?}, fresh {theirs:?}"
                ));
            }
        }
        (self.symbols != fresh.symbols).then(|| {
            let ours = self
                .symbols
                .iter()
                .find(|symbol| !fresh.symbols.iter().any(|s| s == *symbol));
            let theirs = fresh
                .symbols
                .iter()
                .find(|symbol| !self.symbols.iter().any(|s| s == *symbol));
            format!("symbols: prebuilt {ours:?}, fresh {theirs:?}")
        })
    }

    /// ` in FUNCTION`, for an offset in code.
    fn around(&self, offset: u64) -> String {
        match self.symbols.range(..=offset).next_back() {
            Some((_, name)) if self.is_code && !name.is_empty() => format!(" in {name}"),
            _ => String::new(),
        }
    }
}

/// A relocation's target by name: a symbol's, or its section's and the place in it.
fn target(
    file: &ElfFile64<'_, LittleEndian>,
    target: object::RelocationTarget,
) -> anyhow::Result<String> {
    let object::RelocationTarget::Symbol(index) = target else {
        return Ok(format!("{target:?}"));
    };
    let symbol = file.symbol_by_index(index)?;
    let name = symbol.name()?;
    if !name.is_empty() {
        return Ok(name.into());
    }
    let section = symbol
        .section_index()
        .context("a nameless symbol outside every section")?;
    let section = file.section_by_index(section)?;
    Ok(format!("{}+{}", section.name()?, symbol.address()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::{Object, Relocation, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind};
    use object::{SymbolFlags, SymbolKind, SymbolScope};

    /// An object like ours: one program that uses one of two maps.
    fn object(code: &[u8], maps: &[u8], used: &str) -> Vec<u8> {
        let mut file = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let xdp = file.add_section(Vec::new(), b"xdp".into(), SectionKind::Text);
        file.append_section_data(xdp, code, 8);
        let section = file.add_section(Vec::new(), b"maps".into(), SectionKind::Data);
        file.append_section_data(section, maps, 4);
        let mut add = |name: &str, value, kind, section| {
            file.add_symbol(Symbol {
                name: name.into(),
                value,
                size: 8,
                kind,
                scope: SymbolScope::Linkage,
                weak: false,
                section: SymbolSection::Section(section),
                flags: SymbolFlags::None,
            })
        };
        add("edge_xdp", 0, SymbolKind::Text, xdp);
        let ids = [("KEYS", 0), ("PORTS", 8)]
            .map(|(name, value)| (name, add(name, value, SymbolKind::Data, section)));
        let (_, symbol) = ids.into_iter().find(|(name, _)| *name == used).unwrap();
        let flags = RelocationFlags::Elf {
            r_type: elf::R_BPF_64_64,
        };
        file.add_relocation(
            xdp,
            Relocation {
                offset: 8,
                symbol,
                addend: 0,
                flags,
            },
        )
        .unwrap();
        file.write().unwrap()
    }

    fn difference(other: &[u8]) -> Option<String> {
        first_difference(&object(&[7; 24], &[1; 16], "KEYS"), other).unwrap()
    }

    #[test]
    fn equal_objects_have_no_difference() {
        assert_eq!(difference(&object(&[7; 24], &[1; 16], "KEYS")), None);
    }

    #[test]
    fn the_first_other_instruction_is_named() {
        let mut code = [7; 24];
        code[17] = 8;
        let said = difference(&object(&code, &[1; 16], "KEYS")).unwrap();
        assert!(
            said.starts_with("section xdp, instruction 2 in edge_xdp: prebuilt 07"),
            "{said}"
        );
        let said = difference(&object(&[7; 32], &[1; 16], "KEYS")).unwrap();
        assert_eq!(said, "section xdp, length: prebuilt 24 bytes, fresh 32");
    }

    #[test]
    fn another_map_in_a_relocation_is_a_difference() {
        let said = difference(&object(&[7; 24], &[1; 16], "PORTS")).unwrap();
        assert!(said.contains("relocation 0"), "{said}");
        assert!(said.contains("KEYS") && said.contains("PORTS"), "{said}");
    }

    #[test]
    fn another_map_definition_is_a_difference() {
        let mut maps = [1; 16];
        maps[4] = 2;
        let said = difference(&object(&[7; 24], &maps, "KEYS")).unwrap();
        assert!(said.starts_with("section maps, byte 4"), "{said}");
    }
}
