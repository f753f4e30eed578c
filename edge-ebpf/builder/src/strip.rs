//! Takes DWARF out of a linked object: BTF was made from it, the kernel loads none of it,
//! and it is most of the bytes.

use object::build::elf::{Builder, SectionData};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader as _};

/// Why bytes are not a BPF object.
#[derive(Debug, thiserror::Error)]
pub enum NotAnObject {
    /// Not ELF, or broken ELF.
    #[error("not a readable 64-bit little-endian ELF file: {0}")]
    Elf(String),
    /// ELF for another machine.
    #[error("ELF machine {0} where a BPF object has {EM_BPF}", EM_BPF = elf::EM_BPF)]
    Machine(u16),
}

/// Whether `bytes` are a BPF object: ELF, 64 bits, little-endian, machine EM_BPF (247).
///
/// # Errors
/// What they are instead.
pub fn expect_bpf_object(bytes: &[u8]) -> Result<(), NotAnObject> {
    let unreadable = |error: object::Error| NotAnObject::Elf(error.to_string());
    let file: ElfFile64<'_, object::LittleEndian> = ElfFile64::parse(bytes).map_err(unreadable)?;
    match file.elf_header().e_machine(object::LittleEndian) {
        elf::EM_BPF => Ok(()),
        machine => Err(NotAnObject::Machine(machine)),
    }
}

/// The object without its `.debug_*` sections and their relocations.
///
/// # Errors
/// When `bytes` are no BPF object.
pub fn strip_dwarf(bytes: &[u8]) -> Result<Vec<u8>, NotAnObject> {
    expect_bpf_object(bytes)?;
    let unreadable = |error: object::build::Error| NotAnObject::Elf(error.to_string());
    let mut builder = Builder::read(bytes).map_err(unreadable)?;
    for section in &mut builder.sections {
        let name = &section.name;
        if name.starts_with(b".debug_") || name.starts_with(b".rel.debug_") {
            section.delete = true;
        }
    }
    builder.delete_orphans();
    // LLVM keeps the sections' names in the symbols' string table; the writer wants its own.
    if !builder
        .sections
        .iter()
        .any(|s| matches!(s.data, SectionData::SectionString))
    {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = elf::SHT_STRTAB;
        names.sh_addralign = 1;
        names.data = SectionData::SectionString;
    }
    builder.delete_unused_versions();
    let mut stripped = Vec::new();
    builder.write(&mut stripped).map_err(unreadable)?;
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(
            expect_bpf_object(b"\x7fELF"),
            Err(NotAnObject::Elf(_))
        ));
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(matches!(
            expect_bpf_object(&own),
            Err(NotAnObject::Machine(_))
        ));
    }

    #[test]
    fn dwarf_goes_and_the_rest_stays() {
        use object::{Object as _, ObjectSection as _};
        let mut file = object::write::Object::new(
            object::BinaryFormat::Elf,
            object::Architecture::Bpf,
            object::Endianness::Little,
        );
        let mut debug_info = None;
        for (name, kind) in [
            ("xdp", object::SectionKind::Text),
            (".debug_info", object::SectionKind::Debug),
            (".debug_str", object::SectionKind::Debug),
            (".BTF", object::SectionKind::Other),
        ] {
            let section = file.add_section(Vec::new(), name.into(), kind);
            file.append_section_data(section, name.as_bytes(), 8);
            if name == ".debug_info" {
                debug_info = Some(section);
            }
        }
        let symbol = file.section_symbol(debug_info.unwrap());
        file.add_relocation(
            debug_info.unwrap(),
            object::write::Relocation {
                offset: 0,
                symbol,
                addend: 0,
                flags: object::RelocationFlags::Elf {
                    r_type: elf::R_BPF_64_64,
                },
            },
        )
        .unwrap();
        let stripped = strip_dwarf(&file.write().unwrap()).unwrap();
        let stripped = object::File::parse(&*stripped).unwrap();
        let names: Vec<_> = stripped
            .sections()
            .map(|s| s.name().unwrap().to_owned())
            .collect();
        assert!(
            !names.iter().any(|name| name.contains("debug")),
            "{names:?}"
        );
        for name in ["xdp", ".BTF"] {
            let section = stripped.section_by_name(name).unwrap();
            assert_eq!(section.data().unwrap(), name.as_bytes());
        }
    }
}
