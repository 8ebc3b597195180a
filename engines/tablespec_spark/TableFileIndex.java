package io.tablespec.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files of one state of a table, as Spark's planner asks for them.
 *
 * Python lists the files that may hold a match. Whether a partition matches is decided here, by Spark's own expressions, because Spark
 * does not apply partition filters again. The source is compiled by Janino, which knows neither lambdas nor the diamond.
 */
public final class TableFileIndex implements FileIndex {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String key;
    private final String root;
    private final StructType partitionSchema;
    private final long size;
    private final Function listing;

    /**
     * @param key what the files are: indexes with the same key list the same files
     * @param listing filters as JSON to the files that may match, as bytes, or to the reason why they cannot be told
     */
    public TableFileIndex(String key, String root, StructType partitionSchema, Number size, Function listing) {
        this.key = key;
        this.root = root;
        this.partitionSchema = partitionSchema;
        this.size = size.longValue();
        this.listing = listing;
    }

    public scala.collection.immutable.Seq rootPaths() {
        List paths = new ArrayList();
        paths.add(new Path(root));
        return CollectionConverters.asScala(paths).toSeq();
    }

    public StructType partitionSchema() {
        return partitionSchema;
    }

    public long sizeInBytes() {
        return size;
    }

    public void refresh() {}

    public String[] inputFiles() {
        List files = new ArrayList();
        scala.collection.immutable.Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
        Iterator directories = CollectionConverters.asJava(listFiles(none, none)).iterator();
        while (directories.hasNext()) {
            PartitionDirectory directory = (PartitionDirectory) directories.next();
            for (int i = 0; i < directory.files().size(); i++) {
                Object file = directory.files().apply(i);
                files.add(((org.apache.spark.sql.execution.datasources.FileStatusWithMetadata) file).getPath().toString());
            }
        }
        return (String[]) files.toArray(new String[0]);
    }

    public scala.collection.immutable.Seq listFiles(
            scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
        List asked = new ArrayList();
        describeAll(partitionFilters, asked);
        describeAll(dataFilters, asked);
        try {
            Object listed = listing.apply(JSON.writeValueAsString(asked));
            if (listed instanceof String) {
                throw new IllegalArgumentException((String) listed);
            }
            DataInputStream in = new DataInputStream(new ByteArrayInputStream((byte[]) listed));
            return CollectionConverters.asScala(directories(in, bound(partitionFilters))).toSeq();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    public boolean equals(Object other) {
        return other instanceof TableFileIndex && ((TableFileIndex) other).key.equals(key);
    }

    public int hashCode() {
        return key.hashCode();
    }

    public String toString() {
        return "tablespec " + root;
    }

    private List directories(DataInputStream in, List filters) throws IOException {
        List found = new ArrayList();
        int partitions = in.readInt();
        for (int i = 0; i < partitions; i++) {
            Object[] values = new Object[partitionSchema.length()];
            for (int column = 0; column < values.length; column++) {
                values[column] = in.readBoolean() ? value(partitionSchema.apply(column).dataType(), bytes(in)) : null;
            }
            FileStatus[] files = new FileStatus[in.readInt()];
            for (int file = 0; file < files.length; file++) {
                Path path = new Path(text(bytes(in)));
                files[file] = new FileStatus(in.readLong(), false, 1, 1L << 27, in.readLong(), path);
            }
            if (matches(values, filters)) {
                found.add(PartitionDirectory.apply((InternalRow) new GenericInternalRow(values), files));
            }
        }
        return found;
    }

    private static Object value(DataType type, byte[] stored) {
        if (type instanceof DecimalType) {
            DecimalType decimal = (DecimalType) type;
            return Decimal.apply(new BigDecimal(text(stored)), decimal.precision(), decimal.scale());
        }
        String name = type.typeName();
        if (name.equals("string")) return UTF8String.fromBytes(stored);
        if (name.equals("binary")) return stored;
        String text = text(stored);
        if (name.equals("boolean")) return Boolean.valueOf(text);
        if (name.equals("byte")) return Byte.valueOf(text);
        if (name.equals("short")) return Short.valueOf(text);
        if (name.equals("integer") || name.equals("date")) return Integer.valueOf(text);
        if (name.equals("float")) return Float.valueOf(text);
        if (name.equals("double")) return Double.valueOf(text);
        return Long.valueOf(text);
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        byte[] read = new byte[in.readInt()];
        in.readFully(read);
        return read;
    }

    private static String text(byte[] stored) {
        return new String(stored, StandardCharsets.UTF_8);
    }

    /** Pairs of a filter and the positions among the partition columns of what it looks at. */
    private List bound(scala.collection.immutable.Seq filters) {
        List found = new ArrayList();
        for (int i = 0; i < filters.size(); i++) {
            Expression filter = (Expression) filters.apply(i);
            scala.collection.immutable.Seq references = filter.references().toSeq();
            int[] positions = new int[references.size()];
            for (int at = 0; at < positions.length; at++) {
                positions[at] = partitionSchema.fieldIndex(((Attribute) references.apply(at)).name());
            }
            Object sequence = new org.apache.spark.sql.catalyst.expressions.package$AttributeSeq(references);
            Expression expression = BindReferences.bindReference(
                    filter, (org.apache.spark.sql.catalyst.expressions.package$AttributeSeq) sequence, false);
            found.add(new Object[] {expression, positions});
        }
        return found;
    }

    private static boolean matches(Object[] values, List filters) {
        for (int i = 0; i < filters.size(); i++) {
            Object[] filter = (Object[]) filters.get(i);
            int[] positions = (int[]) filter[1];
            Object[] seen = new Object[positions.length];
            for (int at = 0; at < seen.length; at++) {
                seen[at] = values[positions[at]];
            }
            // Null counts as false.
            if (!Boolean.TRUE.equals(((Expression) filter[0]).eval(new GenericInternalRow(seen)))) return false;
        }
        return true;
    }

    private static void describeAll(scala.collection.immutable.Seq expressions, List into) {
        for (int i = 0; i < expressions.size(); i++) {
            into.add(describe((Expression) expressions.apply(i)));
        }
    }

    /** An expression as the name of its class and its operands. */
    private static List describe(Expression expression) {
        List found = new ArrayList();
        found.add(expression.getClass().getSimpleName());
        if (expression instanceof AttributeReference) {
            // What `_metadata` tells of files may have the names of columns.
            boolean isColumn = !((AttributeReference) expression).metadata().contains("__metadata_col");
            if (isColumn) found.add(((AttributeReference) expression).name());
        } else if (expression instanceof Literal) {
            describeLiteral(((Literal) expression).dataType(), ((Literal) expression).value(), found);
        } else if (expression instanceof GetStructField) {
            found.add(describe(((GetStructField) expression).child()));
            found.add(((GetStructField) expression).extractFieldName());
        } else if (expression instanceof InSet) {
            InSet set = (InSet) expression;
            found.set(0, "In");
            found.add(describe(set.child()));
            Iterator values = CollectionConverters.asJava(set.hset()).iterator();
            while (values.hasNext()) {
                List literal = new ArrayList();
                literal.add("Literal");
                describeLiteral(set.child().dataType(), values.next(), literal);
                found.add(literal);
            }
        } else {
            describeAll(expression.children(), found);
        }
        return found;
    }

    /** The type and the value as Spark holds it: days, microseconds, the text of everything else. */
    private static void describeLiteral(DataType type, Object value, List into) {
        into.add(type.typeName());
        into.add(value == null ? null : value.toString());
    }
}
