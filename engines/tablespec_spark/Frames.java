package io.tablespec.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Makes frames of tables. Each way from Python to here takes its time, so that what belongs together comes in one piece of JSON. */
public final class Frames {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The rows of the files that a listing tells, read by Spark's own Parquet reader. */
    public Object relation(SparkSession session, String described, Function listing) throws JsonProcessingException {
        optimize(session);
        JsonNode relation = JSON.readTree(described);
        StructType partitions = (StructType) DataType.fromJson(relation.get("partitions").toString());
        TableFileIndex index = new TableFileIndex(
                relation.get("key").asText(),
                relation.get("root").asText(),
                partitions,
                Long.valueOf(relation.get("size").asLong()),
                listing);
        Map options = new HashMap();
        Iterator names = relation.get("options").fieldNames();
        while (names.hasNext()) {
            String name = (String) names.next();
            options.put(name, relation.get("options").get(name).asText());
        }
        return session.baseRelationToDataFrame(new HadoopFsRelation(
                index,
                partitions,
                (StructType) DataType.fromJson(relation.get("columns").toString()),
                Option.empty(),
                new ParquetFileFormat(),
                PythonUtils.toScalaMap(options),
                session));
    }

    /** The rows whose number, where they have one, is none of these; see DeletedRows. */
    public Object withoutNumbers(Dataset rows, byte[] numbers, Integer end, String hasNumber, String number, Boolean inPlan) {
        return new DeletedRows(numbers, end.intValue()).takenFrom(rows, hasNumber, number, inPlan.booleanValue());
    }

    /** Columns of a frame by their names. */
    public Object select(Dataset frame, String names) throws JsonProcessingException {
        JsonNode wanted = JSON.readTree(names);
        Column[] columns = new Column[wanted.size()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = functions.col("`" + ((JsonNode) wanted.get(i)).asText().replace("`", "``") + "`");
        }
        return frame.select(columns);
    }

    /** Let a session plan queries on tables by the rules that they need. */
    private static synchronized void optimize(SparkSession session) {
        List rules = new ArrayList(CollectionConverters.asJava(session.experimental().extraOptimizations()));
        for (int i = 0; i < rules.size(); i++) {
            if (rules.get(i) instanceof ExactFilters) return;
        }
        rules.add(new CountedRows());
        rules.add(new ExactFilters());
        session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
    }
}
